#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/support/result.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::cli {

enum class Wanted { kModel, kTokenizerAlone };
/// The tokenizer of a model folder, of a bundle, or beside an .onnx file (driver::find_tokenizer).
/// kBadInput when there is none or it is damaged, kUnsupported when it asks for what there is not;
/// `instead`: what the command takes in its place, for the hint, or nothing. With Wanted::kModel a
/// missing or refused tokenizer of what is not a decoder is the error of check_decoder.
Result<std::unique_ptr<hosted::Tokenizer>> load_tokenizer(const std::filesystem::path& model,
                                                          const std::string& instead,
                                                          Wanted wanted = Wanted::kModel);

/// kUnsupported when `model` is not a decoder (driver::not_a_decoder), and the errors of
/// import_model. A bundle is not checked.
Status check_decoder(const std::filesystem::path& model);

/// The whole of a text file; "-" is standard input.
Result<std::string> read_text(const std::string& path);
/// The same without the line break that ends the last line, as llama.cpp reads a prompt.
Result<std::string> read_prompt(const std::string& path);

}  // namespace llmc::cli
