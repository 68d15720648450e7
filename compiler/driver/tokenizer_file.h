#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/onnx/model.h"
#include "compiler/plan/plan.h"
#include "runtime/hosted/tokenizer.h"

/// Finds and reads a model's tokenizer.
namespace llmc::driver {

/// Returns `model` if it is a tokenizer file (one of those below, or that of a bundle); otherwise
/// the tokenizer file in the first of model_folders() that contains one; empty if there is none. If
/// a folder contains several, returns the first of:
///   tokenizer.txt, which lists the stop ids;
///   tokenizer.json, which Hugging Face also prefers;
///   tokenizer.model;
///   a tiktoken vocabulary (*.tiktoken).
std::filesystem::path find_tokenizer(const std::filesystem::path& model);

/// Reads the tokenizer of a model, if there is one, and stores the data that bundles need in
/// `planned`. Returns nullptr if there is no tokenizer or it is rejected. If it is rejected, stores
/// the reason in planned.tokenizer_refused; the library then accepts only token ids.
std::unique_ptr<hosted::Tokenizer> read_tokenizer(const std::filesystem::path& path_of_model,
                                                  const importer::ImportedModel& model,
                                                  plan::PlanOptions& planned);

/// Returns a warning if `tokenizer`, the result of read_tokenizer(), converts plain text to ids
/// that are not in the model's vocabulary of `vocabulary` tokens. Control tokens after the
/// vocabulary, which some published models have, cause no warning, because text becomes a control
/// token only on request.
std::optional<Diagnostic> tokenizer_too_large(const hosted::Tokenizer& tokenizer,
                                              const std::filesystem::path& file,
                                              std::int64_t vocabulary);

}  // namespace llmc::driver
