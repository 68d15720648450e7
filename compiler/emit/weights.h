#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "compiler/plan/program.h"
#include "compiler/support/result.h"

namespace llmc::emit {

using WeightSink = std::function<Status(std::span<const std::byte>)>;
using WeightProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Reads, encodes and packs all weights in the order of the plan, a few panels at a time on two
/// threads: what is in memory at once does not depend on the model's size. Writes exactly `bytes`
/// bytes (plan::Plan::weights_bytes), the same for any number of threads. kBadInput naming the
/// tensor when a weight is not finite or too large for its format; what `sink` fails with.
Status write_weights(const plan::Program& program, std::uint64_t bytes, const WeightSink& sink,
                     const WeightProgress& progress = {});

}  // namespace llmc::emit
