#pragma once

#include <array>

#include "compiler/quant/block_fit.h"
#include "compiler/quant/products.h"

/// Rounds one block of 32 columns for 16 rows at a time, with error feedback inside the block.
namespace llmc::quant {

struct BlockSearch {
  template <std::size_t N>
  using Numbers = std::array<float, N>;

  // Inputs. Matrices are [column][row]; columns after the last have weight and unit 0.
  alignas(64) Numbers<kLanes> scale{}, min{};         // q4: S and M of each row; M may be negative
  alignas(64) Numbers<kFitWidth * kLanes> given{};    // the weights
  alignas(64) Numbers<kFitWidth * kLanes> wanted{};   // given + shift + errors of earlier blocks
  alignas(64) Numbers<kFitWidth * kFitWidth> unit{};  // U of the block's columns
  alignas(64) Numbers<kFitWidth> weight{};            // D

  // Results. Codes are counted from the lowest one. `error` is the weight minus the rounded weight.
  alignas(64) Numbers<kLanes> s{}, m{};
  alignas(64) Numbers<kFitWidth * kLanes> code{}, error{};

  /// Tries several s and m of q4 for each row and keeps those with the least weighted error after
  /// feedback.
  void run_q4();
  /// Does the same for codes `lowest`..`highest` with one f16 scale, which it stores in `s`. The
  /// scale is not negative if `lowest` is -`highest`.
  void run_symmetric(float lowest, float highest);
};

}  // namespace llmc::quant
