#pragma once

#include <optional>

#include "compiler/driver/grammar_source.h"
#include "compiler/exec/native.h"
#include "tools/llmc/options.h"

/// Options that hold what a model writes to a grammar, with llama.cpp's names (docs/grammar.md).
namespace llmc::cli {

struct GrammarOptions {
  std::string grammar, grammar_file, json_schema, json_schema_file;
  CLI::Option *grammar_option = nullptr, *grammar_file_option = nullptr,
              *json_schema_option = nullptr, *json_schema_file_option = nullptr;
  bool none = false;  // --no-grammar

  bool given() const;  // any but --no-grammar
};

/// --grammar, --grammar-file, --json-schema, --json-schema-file, of which one can be given.
void add_grammar_options(CLI::App& app, GrammarOptions& options);
/// --no-grammar of commands that take bundles with a grammar in them.
void add_no_grammar(CLI::App& app, GrammarOptions& options);

/// The grammar that was given, read and parsed once, so that what is wrong with it is told before
/// anything takes long; none when no option was given. Errors: read_text's and parse_grammar's.
Result<driver::GrammarSource> grammar_source(const GrammarOptions& options);

/// The same for the options of a compilation.
Status take_grammar(const GrammarOptions& options, driver::CompileOptions& compile);

/// What a model's texts are held to, for Session::set_grammar: the tables of `source`, or nothing
/// for the grammar that was compiled in. nullopt: there is neither, or --no-grammar.
/// Errors of driver::grammar_tables; `tokenizer` may be null.
Result<std::optional<std::string>> grammar_for(const GrammarOptions& options,
                                               const driver::GrammarSource& source,
                                               const ModelOptions& model_options,
                                               const exec::ModelInfo& model,
                                               const hosted::Tokenizer* tokenizer,
                                               const Globals& globals);

}  // namespace llmc::cli
