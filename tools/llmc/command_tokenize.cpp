#include <fmt/format.h>

#include <memory>
#include <optional>

#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/piece_table.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

struct TokenizeCommand {
  std::string model;
  std::optional<std::string> text, file, ids;  // at most one of them
  bool no_prefix = false;
  bool special = false;
  bool suffix = false;
  bool c_table = false;
};

Result<int> decode(const TokenizeCommand& command, const hosted::Tokenizer& tokenizer,
                   const Globals& globals) {
  LLMC_TRY(const auto ids,
           parse_numbers(*command.ids, "--ids", static_cast<std::int64_t>(tokenizer.size()) - 1));
  const std::string text = tokenizer.decode(ids);
  if (globals.json) {
    print_json(Json{{"ids", ids}, {"text", text}});
  } else {
    print(text + "\n");
  }
  return 0;
}

Result<int> tokenize(const TokenizeCommand& command, const Globals& globals) {
  if (command.c_table) {
    LLMC_TRY(const auto loaded, load_tokenizer(command.model, "", Wanted::kTokenizerAlone));
    print(c_table(*loaded));
    return 0;
  }
  if (!command.text && !command.file && !command.ids)
    return usage_error("TEXT, --file, --ids or --c-table is required", "use '' for an empty text");
  LLMC_TRY(const auto loaded, load_tokenizer(command.model, "", Wanted::kTokenizerAlone));
  const hosted::Tokenizer& tokenizer = *loaded;
  if (command.ids) return decode(command, tokenizer, globals);

  std::string text = command.text.value_or("");
  if (command.file) {
    LLMC_TRY(text, read_text(*command.file));
  }
  const auto ids = tokenizer.encode(text, {.add_prefix = !command.no_prefix,
                                           .parse_special = command.special,
                                           .add_suffix = command.suffix});
  if (globals.json) {
    Json pieces = Json::array();
    for (const std::int32_t id : ids) pieces.push_back(std::string(tokenizer.name_of(id)));
    print_json(Json{{"ids", ids}, {"pieces", pieces}});
    return 0;
  }
  std::string line;
  for (const std::int32_t id : ids) line += fmt::format("{}{}", line.empty() ? "" : ",", id);
  print(line + "\n");
  return 0;
}

}  // namespace

Action add_tokenize(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<TokenizeCommand>();
  app.add_option("MODEL", command->model,
                 "Folder with the tokenizer: a model or a bundle; or its file")
      ->required()
      ->check(not_empty)
      ->type_name("");
  auto* text = app.add_option("TEXT", command->text, "Text to tokenize")->type_name("");
  auto* file = app.add_option("-f,--file", command->file, "File with the text, -: standard input")
                   ->type_name("FILE");
  auto* ids =
      app.add_option("--ids", command->ids, "Token ids to decode, such as 1,2,3")->type_name("IDS");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  auto* table =
      app.add_flag("--c-table", command->c_table,
                   "C tables with the text of every id, for programs without a tokenizer");
  auto* no_prefix = app.add_flag("--no-prefix", command->no_prefix,
                                 "Omit the ids at the start of prompts, such as BOS");
  auto* special =
      app.add_flag("--special", command->special, "Parse control tokens in the text as tokens");
  auto* suffix = app.add_flag("--suffix", command->suffix,
                              "Append the ids of the tokenizer's template, such as T5's </s>");
  for (auto* of_text : {no_prefix, special, suffix}) {
    ids->excludes(of_text);
    table->excludes(of_text);
  }
  for (auto* other : {text, file, ids, app.get_option("--json")}) table->excludes(other);
  return [command, &globals] { return tokenize(*command, globals); };
}

}  // namespace llmc::cli
