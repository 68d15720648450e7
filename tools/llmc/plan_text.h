#pragma once

#include <string>

#include "compiler/plan/plan.h"
#include "compiler/plan/rounding.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// Returns the content of plan.json without a bundle's files.
Json plan_json(const plan::Plan& plan);
/// Returns the sizes of a plan as aligned lines without a final newline. For functions, also
/// returns their inputs and outputs.
std::string plan_text(const plan::Plan& plan);
/// Returns the same for the content of plan.json. Throws nlohmann's exceptions if a field is
/// missing.
std::string plan_text(const Json& plan);

/// Returns a description of the work in loop nests, and of their operators. `loops`: the member of
/// plan.json.
std::string loops_text(const Json& loops);

/// Prints plan::warnings(), a warning if the tokenizer was rejected, and a note if the batch is
/// larger than the number of sequences.
void note_warnings(const Globals& globals, const plan::Plan& plan);
/// Prints the number of matrices to which --requantize applies.
void note_requantized(const Globals& globals, const plan::Rounding& rounding);
/// Prints a note about `--quant quant` if weights keep the model's codes, or if it is a
/// quantized format and there are no weights to which it applies. `requantize`: whether
/// --requantize is given.
void note_kept_codes(const Globals& globals, const plan::Rounding& rounding,
                     const std::string& quant, bool requantize);

}  // namespace llmc::cli
