#pragma once

#include "compiler/plan/schedule.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// Returns the timeline of a prompt on the CPU and a device, and its figures.
std::string schedule_text(const plan::Schedule& schedule);
Json schedule_json(const plan::Schedule& schedule);

}  // namespace llmc::cli
