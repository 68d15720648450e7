#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "compiler/plan/program.h"
#include "compiler/support/result.h"
#include "llmc/model.h"

namespace llmc::emit {

/// Returns the header of a file with `bytes` bytes of weights. `hash` is the xxh64 of the weights.
llmc_weights_header weights_header(std::uint64_t bytes, std::uint64_t hash);

/// Receives consecutive parts of the weights, and the number of bytes done, in the calling thread.
using WeightSink = std::function<Status(std::span<const std::byte>)>;
using WeightProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Reads, encodes and packs all weights in the order of the plan. Matrices and tables are read in
/// groups of rows, on several threads, so that peak memory does not depend on their size; other
/// weights are read whole or by columns. Writes exactly `bytes` bytes (the size of the program's
/// weights), identical for any number of threads. Fails with kBadInput, naming the tensor, if an
/// element of a matrix, table or vector is not finite or is too large for its format, and with any
/// error of `sink`.
Status write_weights(const plan::Program& program, std::uint64_t bytes, const WeightSink& sink,
                     const WeightProgress& progress = {});

}  // namespace llmc::emit
