#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// Names in emitted source. All text in a model is untrusted: identifiers are validated, and other
/// text appears only in comments, with unsafe characters replaced.
namespace llmc::emit {

/// Checks that `name` is valid in C and C++ as NAME_init, and in file names: a letter followed by
/// letters, digits and single underscores, not ending in an underscore, at most 64 characters, not
/// a keyword, not the name of a system header (math, stdio, …), and not starting with "llmc". Fails
/// with kUsage otherwise.
Status check_name(std::string_view name);

/// Returns a valid name derived from the last component of a model's path: "stories15M-split" ->
/// "stories15m_split". If the file has a generic name, the name of its folder is used:
/// "SmolLM2-135M/onnx/model.onnx" and "SmolLM2-135M/onnx" -> "smollm2_135m", "…/model_q4.onnx" ->
/// "smollm2_135m_q4". A result that is not a valid name gets the prefix "model_", or is "model" if
/// it is empty.
std::string derive_name(const std::filesystem::path& model);

/// Returns the text in a form that is safe in a `//` or `/* */` comment: ASCII letters, digits and
/// " _./:+-()[],=<>@". Double quotes are left out, every other character becomes `_`, so that the
/// text cannot end the comment or continue it on the next line; "//" becomes "/_". Longer text is
/// truncated to `max_bytes` bytes and then ends in "...".
std::string comment_text(std::string_view untrusted, std::size_t max_bytes = 120);
/// Returns a comment of the compiler that may contain names of a model, such as those of dims:
/// backslashes, other than ASCII characters and what would end the comment are replaced.
std::string line_comment(std::string_view comment);

/// Returns a comment line that names the file and the node of a stage; empty if both are unknown.
std::string origin_comment(const ir::Origin& origin);

/// Returns, for example, "GateUp" for "gate_up".
std::string type_name(std::string_view snake);
/// Returns, for example, "kGateUp" for "gate_up".
std::string constant_name(std::string_view snake);
/// Returns, for example, "TINY_MODEL" for "tiny_model".
std::string macro_name(std::string_view name);
/// Returns a C++ expression for the same float, such as "1e-05f" or "0.125f", or a call of a
/// compiler builtin for NaN and infinities.
std::string float_literal(float value);

}  // namespace llmc::emit
