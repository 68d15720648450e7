#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

/// Names that go into emitted source. Whatever a model says is untrusted: identifiers are checked,
/// everything else only ever reaches comments, reduced to harmless characters.
namespace llmc::emit {

/// Fails (kUsage) unless `name` can stand in C and C++ as NAME_init and in file names: a letter,
/// then letters, digits and single underscores, at most 64, no keyword, no name of a system
/// header (math, stdio, …), not "llmc…".
Status check_name(std::string_view name);

/// A valid name made from the last part of a model's path: "stories15M-split" ->
/// "stories15m_split". A file that is called as every model is takes the name of its folder:
/// "SmolLM2-135M/onnx/model.onnx" and "SmolLM2-135M/onnx" -> "smollm2_135m", "…/model_q4.onnx" ->
/// "smollm2_135m_q4".
std::string derive_name(const std::filesystem::path& model);

/// Text for a `//` or `/* */` comment: ASCII letters, digits and " _./:+-()[],=<>@"; anything else
/// becomes `_`, so that no comment ends early or swallows the next line. Cut to `max_bytes`.
std::string comment_text(std::string_view untrusted, std::size_t max_bytes = 120);

/// "gate_up" -> "kGateUp"
std::string constant_name(std::string_view snake);
/// "tiny_model" -> "TINY_MODEL"
std::string macro_name(std::string_view name);
/// A float as a C++ literal that reads back to the same bits: "1e-05f", "0.125f".
std::string float_literal(float value);

}  // namespace llmc::emit
