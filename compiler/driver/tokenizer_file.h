#pragma once

#include <filesystem>

/// Where a model's tokenizer is.
namespace llmc::driver {

/// The tokenizer file in a model's folder, beside its .onnx file, or above its folder onnx/:
/// tokenizer.txt, which knows the stop ids, before tokenizer.model and tokenizer.json, these before
/// a list of tiktoken's. Empty when there is none.
std::filesystem::path find_tokenizer(const std::filesystem::path& model);

}  // namespace llmc::driver
