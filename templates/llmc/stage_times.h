#pragma once

#include "llmc/parts.h"

extern "C" {
__attribute__((visibility("default"))) llmc::StageHook llmc_stage_hook = {};
}

/// Calls of the stage hook, for code that is compiled to measure its stages. One source of a
/// library includes this header.
namespace llmc {

/// Calls the hook at the end of a plain graph's stage, by its number.
inline void finished(uint32_t stage) {
  if (llmc_stage_hook.end != nullptr) llmc_stage_hook.end(llmc_stage_hook.user, stage);
}
/// Calls the hook at the end of a decoder's stage of `part`.
inline void finished(Part part) {
  finished(static_cast<uint32_t>(part));
}

}  // namespace llmc
