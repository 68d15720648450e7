#include "tools/llmc/grammar_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/driver/chat_files.h"
#include "compiler/support/counted.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

using Kind = driver::GrammarSource::Kind;

/// Returns whether the value of --grammar or --json-schema is the text itself, as in llama.cpp, and
/// not a file name. A grammar contains a rule, and a schema is an object (or `true`).
bool is_text(Kind kind, const std::string& given) {
  if (kind == Kind::kGbnf) return given.find("::=") != given.npos;
  const std::size_t first = given.find_first_not_of(" \t\r\n");
  return first != given.npos && (given[first] == '{' || given.substr(first) == "true");
}

/// Fails with kUsage for an empty value. Also fails for a value that resembles a text, but is
/// neither a valid text nor an existing file.
Status check_is_file(Kind kind, const std::string& option, const std::string& given) {
  if (given.empty()) return usage_error(option + " is empty", "give a file, or -: standard input");
  std::error_code error;
  const bool reads_like_text = given.find_first_of("=|{}[]\"\n") != given.npos;
  if (!reads_like_text || std::filesystem::exists(given, error)) return ok_status();
  const bool gbnf = kind == Kind::kGbnf;
  return file_failure(
      ErrorKind::kBadInput, option,
      fmt::format("'{}' is neither a file nor a {}", printable(given, 80),
                  gbnf ? "grammar: it has no rule with ::=" : "schema: it does not start with {"),
      gbnf ? "write rules as name ::= …, such as root ::= \"yes\" | \"no\""
           : "write a schema as {…}, such as {\"type\": \"object\"}");
}

}  // namespace

bool GrammarOptions::given() const {
  const CLI::Option* const all[] = {grammar_option, grammar_file_option, json_schema_option,
                                    json_schema_file_option};
  return std::ranges::any_of(all, [](const CLI::Option* option) { return option->count() > 0; });
}

void add_grammar_options(CLI::App& app, GrammarOptions& options) {
  const auto add = [&](const char* names, std::string& value, const char* text, const char* type) {
    return app.add_option(names, value, text)->type_name(type)->group("Grammar");
  };
  options.grammar_option =
      add("--grammar", options.grammar,
          "GBNF grammar that constrains the text: a file, or the grammar itself", "FILE");
  options.grammar_file_option =
      add("--grammar-file", options.grammar_file, "File with a GBNF grammar", "FILE");
  options.json_schema_option =
      add("-j,--json-schema", options.json_schema,
          "JSON schema that constrains the text: a file, or the schema itself", "FILE");
  options.json_schema_file_option = add("--json-schema-file", options.json_schema_file,
                                        "File with a JSON schema, alias -jf", "FILE");
  CLI::Option* const all[] = {options.grammar_option, options.grammar_file_option,
                              options.json_schema_option, options.json_schema_file_option};
  for (CLI::Option* const one : all)
    for (CLI::Option* const other : all)
      if (one != other) one->excludes(other);
}

void add_no_grammar(CLI::App& app, GrammarOptions& options) {
  CLI::Option* const none =
      app.add_flag("--no-grammar", options.none, "Ignore the bundle's grammar")->group("Grammar");
  for (CLI::Option* const given : {options.grammar_option, options.grammar_file_option,
                                   options.json_schema_option, options.json_schema_file_option})
    none->excludes(given);
}

Result<driver::GrammarSource> grammar_source(const GrammarOptions& options) {
  struct Way {
    const CLI::Option* option;
    const std::string& value;
    Kind kind;
    bool file;
  };
  const Way ways[] = {
      {options.grammar_option, options.grammar, Kind::kGbnf, false},
      {options.grammar_file_option, options.grammar_file, Kind::kGbnf, true},
      {options.json_schema_option, options.json_schema, Kind::kJsonSchema, false},
      {options.json_schema_file_option, options.json_schema_file, Kind::kJsonSchema, true}};
  driver::GrammarSource source;
  for (const Way& way : ways) {
    if (way.option->count() == 0) continue;
    source.kind = way.kind;
    if (!way.file && is_text(way.kind, way.value)) {
      source.file = way.option->get_name();
      source.text = way.value;
    } else {
      if (!way.file)
        LLMC_RETURN_IF_ERROR(check_is_file(way.kind, way.option->get_name(), way.value));
      source.file = way.value == "-" ? "standard input" : way.value;
      LLMC_TRY(source.text, read_text(way.value));
    }
    LLMC_TRY(const auto parsed, driver::parse_grammar(source));
    static_cast<void>(parsed);
  }
  return source;
}

Result<std::optional<std::string>> grammar_for(const GrammarOptions& options,
                                               const driver::GrammarSource& source,
                                               const ModelOptions& model_options,
                                               const exec::ModelFacts& model,
                                               const hosted::Tokenizer* tokenizer,
                                               const Globals& globals) {
  if (!source.given()) {
    const bool compiled_in = model.grammar_bytes > 0 && !options.none;
    return compiled_in ? std::optional<std::string>("") : std::nullopt;
  }
  Progress line(globals);
  line.update("grammar", 0, 0);
  LLMC_TRY(const hosted::ChatDescription chat, driver::chat_of(model_options.model));
  LLMC_TRY(hosted::grammar::Tables tables,
           driver::grammar_tables(source, tokenizer, model.vocab, chat));
  if (globals.verbose > 0) {
    const hosted::grammar::TableFacts& facts = tables.facts;
    line.clear();
    note(globals, fmt::format("grammar: {} bytes of tables, {}, {}", facts.bytes,
                              counted(facts.states, "state"), counted(facts.masks, "mask")));
  }
  return std::optional(std::move(tables.bytes));
}

}  // namespace llmc::cli
