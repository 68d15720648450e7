#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "compiler/calibrate/choice.h"
#include "compiler/calibrate/matrix_products.h"
#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// Measures the loss from rounding matrices: KL(model || model with rounded matrices) on a text, in
/// nats per token.
namespace llmc::calibrate {

struct MeasureOptions {
  /// Token ids; each window begins with empty caches.
  std::vector<std::vector<std::int32_t>> windows;
  std::size_t threads = 0;  // 0: the number of cores
  /// Limit of the memory for logits in bytes. At least the logits of two models are kept.
  std::uint64_t logits_bytes = std::uint64_t{1} << 30;
  /// Called with the number of measured matrices and the total number.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Formats to which matrices are rounded, by constant of the graph.
using Rounded = std::map<const ir::Constant*, ir::WeightFormat>;

/// Returns the losses of rounding each matrix alone, in the order of `matrices`. The loss of the
/// first format is measured: the mean KL divergence of all tokens. The losses of the other formats
/// are estimated from it by the ratio of the squared errors of the matrix's results. Runs the exact
/// model and a group of models with one rounded matrix each at the same time, node by node. All of
/// them share the results before their rounded matrix, and each matrix is read once per group and
/// format. The result does not depend on the host or on threads. Fails like window_inputs() and the
/// interpreter, with kUnsupported if the graph has no logits of all tokens, and with kBadInput if
/// results of a matrix or the loss are not finite, or a weight cannot be rounded.
Result<std::vector<Losses>> measure_losses(const ir::Graph& stages,
                                           const std::vector<ir::ConstantPtr>& matrices,
                                           const MeasureOptions& options);
/// Returns the mean KL divergence if all matrices of `rounded` are rounded. Fails like
/// measure_losses().
Result<double> measure_divergence(const ir::Graph& stages, const Rounded& rounded,
                                  const MeasureOptions& options);

}  // namespace llmc::calibrate
