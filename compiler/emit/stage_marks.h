#pragma once

#include <string>
#include <string_view>

#include "llmc/parts.h"

/// Times of stages (`llmc bench --layers`) without profiling calls in the source that is shipped.
namespace llmc::emit {

/// Begins the comment of a stage of this part: "gate_up: "; empty for kRest.
std::string part_tag(Part part);

/// The source of a decoder with a call of finished() after every stage, for -DLLMC_STAGE_TIMES. A
/// stage is a paragraph that begins with a comment, and its part is the comment's tag.
std::string with_stage_marks(std::string_view source);

}  // namespace llmc::emit
