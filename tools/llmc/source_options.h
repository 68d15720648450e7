#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer.h"
#include "tools/llmc/cli.h"

/// The text that an encoder-decoder attends to.
namespace llmc::cli {

struct SourceOptions {
  std::string text, ids;
  CLI::Option *text_option = nullptr, *ids_option = nullptr;

  bool given() const { return text_option->count() + ids_option->count() > 0; }
};

/// Adds --source and --source-ids.
void add_source_options(CLI::App& app, SourceOptions& options);

/// Returns the token ids; empty if no source is given. Fails with kUsage for an empty source, and
/// for a text if `tokenizer` is nullptr.
Result<std::vector<std::int32_t>> source_tokens(const SourceOptions& options,
                                                const hosted::Tokenizer* tokenizer);

}  // namespace llmc::cli
