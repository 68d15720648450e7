#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/onnx/model.h"
#include "compiler/plan/plan.h"
#include "runtime/hosted/tokenizer.h"

/// Finds and reads a model's tokenizer.
namespace llmc::driver {

/// Returns the tokenizer file in the folder of the model, or in the parent folder if that folder is
/// onnx/. Order of preference: tokenizer.txt, which lists the stop ids; tokenizer.json, which
/// Hugging Face prefers as well; tokenizer.model; a tiktoken vocabulary. Empty if there is no such
/// file.
std::filesystem::path find_tokenizer(const std::filesystem::path& model);

/// Reads the tokenizer of a model, if there is one, and stores the facts that programs need in the
/// plan options. Returns nullptr if there is no tokenizer or it is rejected; the reason is stored.
/// The library then still accepts token ids.
std::unique_ptr<hosted::Tokenizer> read_tokenizer(const std::filesystem::path& path_of_model,
                                                  const importer::ImportedModel& model,
                                                  plan::PlanOptions& planned);

/// Returns a warning if `tokenizer`, the result of `read_tokenizer`, produces ids for plain text
/// that are not in the model's vocabulary of `vocabulary` tokens. Control tokens past the
/// vocabulary, which some published models have, are not reported: text becomes a control token
/// only on request.
std::optional<Diagnostic> tokenizer_too_large(const hosted::Tokenizer& tokenizer,
                                              const std::filesystem::path& file,
                                              std::int64_t vocabulary);

}  // namespace llmc::driver
