#pragma once

#include <cstdint>
#include <filesystem>

#include "compiler/support/result.h"

namespace llmc::driver {

/// Returns the number of tokens that the model was trained for; 0 if no file of `model` (a folder
/// or one .onnx file) states it. Each file is read from the first of model_folders() that contains
/// it. The result is the minimum of these values:
///   llm_config.json, config.json: the first of max_position_embeddings, n_positions,
///     max_sequence_length, max_seq_len, seq_length and n_ctx, at the top level or else in
///     text_config;
///   genai_config.json: context_length in model.
/// -1 and null are ignored. Values above UINT32_MAX become UINT32_MAX. Fails with kBadInput
/// if one of these files is not a JSON object, or if another value is not a whole number of at
/// least 1.
Result<std::uint32_t> trained_context(const std::filesystem::path& model);

}  // namespace llmc::driver
