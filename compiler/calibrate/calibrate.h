#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/quant/encoded_matrix.h"
#include "compiler/support/result.h"

/// Chooses the codes of quantized matrices for the inputs that they have while the model reads a
/// text.
namespace llmc::calibrate {

/// Inputs of all experts that an expert's moments have besides its own, as rows for each column.
inline constexpr double kSharedRows = 0.25;

struct Options {
  /// Token ids; each window begins with empty caches.
  std::vector<std::vector<std::int32_t>> windows;
  std::size_t threads = 0;  // 0: the number of cores
  /// Called with the number of weights that are done, and of all.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// The encoded matrices by the constants of the graph.
using Matrices = std::map<const ir::Constant*, std::shared_ptr<const quant::EncodedMatrix>>;

/// A matrix of the graph and the format of its codes.
struct RoundedMatrix {
  ir::ConstantPtr data;
  WeightKind kind;
};
/// Returns the matrices of the graph that calibrate() encodes, in the order of execution: weights
/// of Linear, QkvProjection and ExpertLinear in q4, q6 or q8 whose codes the model does not already
/// have.
std::vector<RoundedMatrix> matrices_of(const ir::Graph& stages);

/// Encodes these matrices. Runs the windows through the graph, a stage-level decoder with weight
/// formats, node by node, once as they are and once with all matrices before already rounded: a
/// matrix is encoded for its inputs after rounding, and partly corrects their change. The rows of
/// an expert are encoded for its own inputs, and partly for those of all experts, since it may have
/// few. Memory: the values between two nodes for all windows, twice, and a few copies of one matrix
/// or expert. The result does not depend on the host or on threads. Fails with kUnsupported if the
/// graph has inputs other than a decoder's, and with kBadInput if values are not finite.
Result<Matrices> calibrate(const ir::Graph& stages, const Options& options);

}  // namespace llmc::calibrate
