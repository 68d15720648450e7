#pragma once

#include <cstdint>
#include <vector>

#include "compiler/exec/native.h"

namespace llmc::exec {

/// Returns `count` token ids that the model of `options` writes, or a few more: texts of `length`
/// tokens, or of the model's context if that is shorter, one after the other. Each begins with
/// `bos` or, if that is negative, with a token of its own; the others are drawn with the model's
/// probabilities. The ids depend on the model alone: code for this machine computes them with q8
/// weights. Fails like load_native().
Result<std::vector<std::int32_t>> own_text(const NativeOptions& options, std::int32_t bos,
                                           std::uint32_t length, std::uint32_t count,
                                           const driver::Progress& progress = {});

}  // namespace llmc::exec
