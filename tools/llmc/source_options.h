#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "runtime/hosted/tokenizer.h"
#include "tools/llmc/cli.h"

/// Options for the source that an encoder-decoder attends to.
namespace llmc::cli {

struct SourceOptions {
  std::vector<std::string> texts, ids, audio, features;

  /// Return whether the source is a text, token ids, or features; only a text needs a tokenizer.
  bool is_text() const { return !texts.empty(); }
  bool is_ids() const { return !ids.empty(); }
  bool is_features() const { return !audio.empty() || !features.empty(); }
  bool given() const { return count() > 0; }
  /// Returns the number of sources, all of which are of the same kind.
  std::size_t count() const { return texts.size() + ids.size() + audio.size() + features.size(); }
};

/// Adds --source and --source-ids.
void add_source_options(CLI::App& app, SourceOptions& options);
/// Adds --audio and --source-features, and allows several sources of each kind.
void add_feature_options(CLI::App& app, SourceOptions& options);

/// Returns the sources. Features need `model`, its folder or bundle, and `native`, the same model
/// loaded. Fails with kUsage for an empty source, for invalid ids, for a text if `tokenizer` is
/// nullptr, for sound that is too long, and for sound if the encoder does not read features of
/// sound. Fails with kBadInput for a file that cannot be read or has another format.
Result<std::vector<exec::EncoderInput>> encoder_inputs(const SourceOptions& options,
                                                       const hosted::Tokenizer* tokenizer,
                                                       const std::string& model = {},
                                                       const exec::NativeModel* native = nullptr);
/// Returns the only source; empty if none is given. Fails like encoder_inputs().
Result<exec::EncoderInput> encoder_input(const SourceOptions& options,
                                         const hosted::Tokenizer* tokenizer);

}  // namespace llmc::cli
