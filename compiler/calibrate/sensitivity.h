#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "compiler/calibrate/choice.h"
#include "compiler/calibrate/matrix_products.h"
#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// Measures what rounding matrices costs: the KL divergence of the model with them from the model,
/// in nats, while both read a text.
namespace llmc::calibrate {

struct MeasureOptions {
  /// Token ids; each window begins with empty caches.
  std::vector<std::vector<std::int32_t>> windows;
  std::size_t threads = 0;  // 0: the number of cores
  /// Limit of the logits in memory.
  std::uint64_t logits_bytes = std::uint64_t{1} << 30;
  /// Called with the number of matrices that are done, and of all.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Formats to which matrices are rounded.
using Rounded = std::map<const ir::Constant*, ir::WeightFormat>;

/// Returns the losses of rounding each matrix alone. That of the first format is measured: the mean
/// KL divergence of all tokens. It is multiplied by the ratio of the squared errors of the matrix'
/// results to estimate the others. Runs the graph node by node with the windows of the model and
/// those of models with one rounded matrix, for several of them at a time; these share everything
/// before the matrix, so that each matrix is read once for a group. The result does not depend on
/// the host or on threads. Fails with kUnsupported if the graph has inputs other than a decoder's
/// or no logits of all tokens, and with kBadInput if values are not finite.
Result<std::vector<Losses>> measure_losses(const ir::Graph& stages,
                                           const std::vector<ir::ConstantPtr>& matrices,
                                           const MeasureOptions& options);
/// Returns the mean KL divergence if all these matrices are rounded. Fails like measure_losses().
Result<double> measure_divergence(const ir::Graph& stages, const Rounded& rounded,
                                  const MeasureOptions& options);

}  // namespace llmc::calibrate
