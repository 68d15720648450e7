#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/support/result.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::cli {

enum class Wanted { kModel, kTokenizerAlone };
/// Loads the tokenizer of a model folder, of a bundle, or in the folder of an .onnx file
/// (driver::find_tokenizer). Fails with kBadInput if there is none or it is damaged, and with
/// kUnsupported for unsupported features. `instead`: the command's alternative, for the hint; may
/// be empty. With Wanted::kModel, a failure for a model that is not a decoder has the error of
/// check_decoder().
Result<std::unique_ptr<hosted::Tokenizer>> load_tokenizer(const std::filesystem::path& model,
                                                          const std::string& instead,
                                                          Wanted wanted = Wanted::kModel);

/// Returns the hint of an error about a token id that is not in the vocabulary of `model`: it names
/// the tokenizer's file.
std::string other_tokenizer_hint(const std::filesystem::path& model);

/// Fails with kUnsupported if `model` is not a decoder (driver::not_a_decoder), and like
/// import_model(). Bundles are not checked.
Status check_decoder(const std::filesystem::path& model);

/// Returns the content of a text file; "-": standard input. Fails with kBadInput if it cannot be
/// read.
Result<std::string> read_text(const std::string& path);
/// Returns the same without a final line break, like prompts in llama.cpp.
Result<std::string> read_prompt(const std::string& path);

}  // namespace llmc::cli
