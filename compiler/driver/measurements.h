#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/calibrate/sensitivity.h"
#include "compiler/driver/budget.h"

namespace llmc::driver {

/// What rounding the matrices of a decoder costs on the text of a budget. Keeps numbers in the
/// cache folder, if there is one: the key depends on the model, the graph, the text and the version
/// of llmc. A text that the model writes is written only if a number is not there.
class Measurements {
 public:
  /// Reads the text. `stages`, `input` and `progress` must outlive the object. Fails with kBadInput
  /// if the text is too short or has no tokenizer.
  static Result<std::unique_ptr<Measurements>> start(const ir::Graph& stages,
                                                     std::vector<ir::ConstantPtr> matrices,
                                                     const FitInput& input,
                                                     const Progress& progress);

  /// Returns the losses of each matrix. Fails like calibrate::measure_losses().
  Result<std::vector<calibrate::Losses>> losses();
  /// Returns the mean divergence with these formats, one for each matrix.
  Result<double> divergence(const std::vector<ir::WeightFormat>& formats);
  /// Returns the number of tokens of the text that are read.
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
  std::vector<std::int32_t> ids_;  // of a given text
  std::int32_t bos_ = -1;          // with which texts begin; -1: none
  std::vector<std::vector<std::int32_t>> windows_;
  std::string key_;
};

}  // namespace llmc::driver
