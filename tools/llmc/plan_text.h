#pragma once

#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// The sizes of a plan as a few aligned lines, without a final newline.
std::string plan_text(const plan::Plan& plan);
/// The same of a plan.json's content. Throws nlohmann's exceptions if something is missing.
std::string plan_text(const Json& plan);

/// How much of the work has no kernel, and the operators that do it; `loops` of a plan.json.
std::string loops_text(const Json& loops);

/// "65536", "64K", "1.5M", "2G" (powers of 1024) -> bytes; empty -> 0. kUsage naming `option`.
Result<std::uint64_t> parse_bytes(const std::string& text, const std::string& option);

/// Notes of plan::warnings().
void note_warnings(const Globals& globals, const plan::Plan& plan);
/// Says what `--quant quant` did where weights keep the codes they came in instead.
void note_kept_codes(const Globals& globals, const plan::Rounding& rounding,
                     const std::string& quant);

}  // namespace llmc::cli
