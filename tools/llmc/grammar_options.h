#pragma once

#include <optional>

#include "compiler/driver/grammar_source.h"
#include "compiler/exec/native.h"
#include "tools/llmc/options.h"

/// Options that constrain generated text by a grammar, with llama.cpp's names (docs/grammar.md).
namespace llmc::cli {

struct GrammarOptions {
  std::optional<std::string> grammar, grammar_file, json_schema, json_schema_file;
  bool none = false;  // --no-grammar

  /// Returns whether one of the options other than --no-grammar is given.
  bool given() const { return grammar || grammar_file || json_schema || json_schema_file; }
};

/// Adds --grammar, --grammar-file, --json-schema and --json-schema-file, which exclude each other.
void add_grammar_options(CLI::App& app, GrammarOptions& options);
/// Adds --no-grammar, for bundles with a compiled-in grammar.
void add_no_grammar(CLI::App& app, GrammarOptions& options);

/// Reads and parses the given grammar early, so that its errors are reported before long
/// operations. If no option is given, returns a source without a grammar (given() is false). Fails
/// like read_text() and driver::parse_grammar(), and with kUsage or kBadInput for a value that is
/// neither a grammar nor a file.
Result<driver::GrammarSource> grammar_source(const GrammarOptions& options);

/// Returns the grammar of a model's texts, for Session::set_grammar(): the tables of `source`, or
/// an empty string for the compiled-in grammar. Returns nullopt if there is neither, and for
/// --no-grammar. `tokenizer` may be nullptr. Fails like driver::grammar_tables().
Result<std::optional<std::string>> grammar_for(const GrammarOptions& options,
                                               const driver::GrammarSource& source,
                                               const ModelOptions& model_options,
                                               const exec::ModelFacts& model,
                                               const hosted::Tokenizer* tokenizer,
                                               const Globals& globals);

}  // namespace llmc::cli
