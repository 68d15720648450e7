#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/calibrate/sensitivity.h"
#include "compiler/driver/budget.h"

namespace llmc::driver {

/// Measures the loss from rounding a decoder's matrices, on the text of --fit or --max-kl. Caches
/// results in the cache folder, if there is one; the key depends on the model, the graph, the text
/// and the version of llmc. If the model generates the text, it does so only when a result is not
/// cached.
class Measurements {
 public:
  /// Reads the text. `stages`, `input` and `progress` must outlive the object. Fails like ids_of(),
  /// check_ids() and bos_of().
  static Result<std::unique_ptr<Measurements>> start(const ir::Graph& stages,
                                                     std::vector<ir::ConstantPtr> matrices,
                                                     const FitInput& input,
                                                     const Progress& progress);

  /// Returns the losses of each matrix, in nats, one per format of calibrate::kChoices. Fails like
  /// calibrate::measure_losses().
  Result<std::vector<calibrate::Losses>> losses();
  /// Returns the mean KL divergence, in nats, with these formats, one for each matrix.
  Result<double> divergence(const std::vector<ir::WeightFormat>& formats);
  /// Returns the number of tokens of the text that are used.
  std::uint32_t tokens() const;

 private:
  Measurements(const ir::Graph& stages, std::vector<ir::ConstantPtr> matrices,
               const FitInput& input, const Progress& progress);
  Result<calibrate::MeasureOptions> options();

  const ir::Graph& stages_;
  const std::vector<ir::ConstantPtr> matrices_;
  const FitInput& input_;
  const Progress& progress_;
  std::uint32_t tokens_ = 0;
  std::vector<std::int32_t> ids_;  // of the text; empty if the model generates it
  std::int32_t bos_ = -1;          // BOS token of the text; -1: none
  std::vector<std::vector<std::int32_t>> windows_;
  std::string key_;
};

}  // namespace llmc::driver
