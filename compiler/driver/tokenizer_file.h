#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/onnx/model.h"
#include "compiler/plan/plan.h"
#include "runtime/hosted/tokenizer.h"

/// Where a model's tokenizer is, and what a plan takes of it.
namespace llmc::driver {

/// The tokenizer file in a model's folder, beside its .onnx file, or above its folder onnx/:
/// tokenizer.txt, which knows the stop ids, before tokenizer.json, as Hugging Face's own choice is,
/// this before tokenizer.model and a list of tiktoken's. Empty when there is none.
std::filesystem::path find_tokenizer(const std::filesystem::path& model);

/// Reads the tokenizer of a model, if it has one, and notes in the plan's options what programs
/// need of it. nullptr for one that is refused, too, and why is noted: the library then works with
/// token ids all the same.
std::unique_ptr<hosted::Tokenizer> read_tokenizer(const std::filesystem::path& path_of_model,
                                                  const importer::ImportedModel& model,
                                                  plan::PlanOptions& planned);

/// A warning when `tokenizer`, the one of `read_tokenizer`, gives plain text ids that a model with
/// `vocabulary` tokens does not have. Control tokens past the vocabulary, which some published
/// models have, are none: text never becomes one unless it is asked for.
std::optional<Diagnostic> tokenizer_too_large(const hosted::Tokenizer& tokenizer,
                                              const std::filesystem::path& file,
                                              std::int64_t vocabulary);

}  // namespace llmc::driver
