#pragma once

#include <string>
#include <string_view>

#include "compiler/plan/plan.h"

/// Generates the source files of a bundle. The output is deterministic: it depends only on the
/// arguments.
namespace llmc::emit {

inline constexpr std::string_view kCompilerVersion = "0.1.0";

/// Returns src/model.cpp: the forward pass as kernel calls, the offsets of weights, the model's
/// descriptor and NAME_init. `weights_hash` is the xxh64 of the weights.
std::string model_source(const plan::Plan& plan, std::uint64_t weights_hash);

/// Returns NAME.h: the C header with the model's constants and NAME_init.
std::string header(const plan::Plan& plan, std::uint64_t weights_hash);

/// Text shared with plain_source.h: the declaration of embedded weights, empty if there are none,
/// and the beginning and end of NAME.h. `what` describes the library: "a language model" or "a
/// graph". `include` is the header that NAME.h includes.
std::string weights_declaration(const plan::Plan& plan);
std::string header_begin(const plan::Plan& plan, std::string_view what, std::string_view include);
inline constexpr std::string_view kHeaderEnd = "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";

/// Returns NAME.cmake, which defines the imported target NAME::NAME.
std::string cmake_file(std::string_view name);
/// Returns NAME.pc. `what` describes the compiled object: "language model" or "function".
std::string pkg_config_file(std::string_view name, std::string_view what,
                            const target::Target& target);

}  // namespace llmc::emit
