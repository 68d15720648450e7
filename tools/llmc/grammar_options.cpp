#include "tools/llmc/grammar_options.h"

#include <fmt/format.h>

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

/// Fails for a value that resembles a text, but is neither a valid text nor an existing file.
Status check_is_file(Kind kind, const std::string& option, const std::string& given) {
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

void add_grammar_options(CLI::App& app, GrammarOptions& options) {
  const auto add = [&](const char* names, auto& value, const char* text) {
    return app.add_option(names, value, text)->type_name("FILE")->group("Grammar");
  };
  CLI::Option* const all[] = {
      add("--grammar", options.grammar,
          "GBNF grammar that constrains the text: a file, or the grammar itself"),
      add("--grammar-file", options.grammar_file, "File with a GBNF grammar"),
      add("-j,--json-schema", options.json_schema,
          "JSON schema that constrains the text: a file, or the schema itself"),
      add("--json-schema-file", options.json_schema_file, "File with a JSON schema, alias -jf")};
  for (CLI::Option* const one : all)
    for (CLI::Option* const other : all)
      if (one != other) one->excludes(other);
}

void add_no_grammar(CLI::App& app, GrammarOptions& options) {
  CLI::Option* const none =
      app.add_flag("--no-grammar", options.none, "Ignore the bundle's grammar")->group("Grammar");
  for (const char* const name :
       {"--grammar", "--grammar-file", "--json-schema", "--json-schema-file"})
    none->excludes(app.get_option(name));
}

Result<driver::GrammarSource> grammar_source(const GrammarOptions& options) {
  struct Way {
    const char* option;
    const std::optional<std::string>& value;
    Kind kind;
    bool file;
  };
  const Way ways[] = {{"--grammar", options.grammar, Kind::kGbnf, false},
                      {"--grammar-file", options.grammar_file, Kind::kGbnf, true},
                      {"--json-schema", options.json_schema, Kind::kJsonSchema, false},
                      {"--json-schema-file", options.json_schema_file, Kind::kJsonSchema, true}};
  driver::GrammarSource source;
  for (const Way& way : ways) {
    if (!way.value) continue;
    const std::string& value = *way.value;
    source.kind = way.kind;
    if (!way.file && is_text(way.kind, value)) {
      source.file = way.option;
      source.text = value;
    } else {
      if (!way.file) LLMC_RETURN_IF_ERROR(check_is_file(way.kind, way.option, value));
      source.file = value == "-" ? "standard input" : value;
      LLMC_TRY(source.text, read_text(value));
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
