#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/quant/encoded_matrix.h"
#include "compiler/support/result.h"

/// Calibration: chooses the codes of quantized matrices for the inputs that the matrices get while
/// the model reads a text.
namespace llmc::calibrate {

/// The second moments (quant::Moments) of one expert's inputs also include those of all experts'
/// inputs, with the weight of kSharedRows rows per column.
inline constexpr double kSharedRows = 0.25;

struct Options {
  /// Token ids; each window begins with empty caches.
  std::vector<std::vector<std::int32_t>> windows;
  std::size_t threads = 0;  // 0: the number of cores
  /// Called with the number of encoded weights and the total number.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Encoded matrices, by constant of the graph.
using Matrices = std::map<const ir::Constant*, std::shared_ptr<const quant::EncodedMatrix>>;

/// A matrix of the graph and the format of its codes.
struct RoundedMatrix {
  ir::ConstantPtr data;
  WeightKind kind;
};
/// Returns the matrices of the graph that calibrate() encodes, in the order of execution: weights
/// of Linear, QkvProjection and ExpertLinear in q4, q6 or q8 that are not quantized in the model.
/// Excludes a QkvProjection whose value rows have another format, and experts that each have a
/// number of rows that is not a multiple of a panel's.
std::vector<RoundedMatrix> matrices_of(const ir::Graph& stages);

/// Encodes these matrices. `stages` is a decoder after all passes, with weight formats. Runs all
/// windows through it node by node, once with the exact matrices and once with the matrices rounded
/// so far. A matrix is encoded for its inputs in the second run, so that it partly corrects the
/// errors of earlier matrices. An expert is encoded for its own inputs and, because these may be
/// few, partly for the inputs of all experts. Memory: two copies of the values between two nodes
/// for all windows, and a few copies of one matrix or expert. The result does not depend on the
/// host or on threads. Fails like window_inputs() and the interpreter, and with kBadInput if an
/// input of a matrix or a weight is not finite, or a weight is too large for its format.
Result<Matrices> calibrate(const ir::Graph& stages, const Options& options);

}  // namespace llmc::calibrate
