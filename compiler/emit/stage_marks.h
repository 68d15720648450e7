#pragma once

#include <string>
#include <string_view>

#include "llmc/parts.h"

/// Instrumentation of stages for `llmc bench --layers`. The source in bundles has no profiling
/// calls.
namespace llmc::emit {

/// Returns the prefix of the comments of this part's stages, for example "gate_up: "; empty for
/// kRest.
std::string part_tag(Part part);

/// Returns the source of a decoder with a call of finished() after every stage, for
/// -DLLMC_STAGE_TIMES. A stage is a block of lines between empty lines that begins with a comment;
/// the prefix of the comment (part_tag()) names the part.
std::string with_stage_marks(std::string_view source);

}  // namespace llmc::emit
