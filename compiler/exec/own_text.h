#pragma once

#include <cstdint>
#include <vector>

#include "compiler/exec/native.h"

namespace llmc::exec {

/// Returns at least `count` token ids that the model of `options` generates: a concatenation of
/// texts of `length` tokens, or of the model's context if that is smaller. Each text begins with
/// `bos` or, if that is negative, with a pseudorandom token. The other tokens are sampled at
/// temperature 1. Compiles the model for this machine with q8 weights, so that the ids depend only
/// on the model and the arguments. Fails like load_native().
Result<std::vector<std::int32_t>> own_text(const NativeOptions& options, std::int32_t bos,
                                           std::uint32_t length, std::uint32_t count,
                                           const driver::Progress& progress = {});

}  // namespace llmc::exec
