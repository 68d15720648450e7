#pragma once

#include "passes/match.h"

/// Labels for the axes of attention's operands, traced from a product towards the inputs through
/// views, repeated heads and scalar factors.
namespace llmc::passes {

enum class Axis : std::uint8_t { kUnit /* size 1: any */, kHeads, kGroup, kTokens, kDim };

struct Traced {
  ir::ValueId value;
  std::vector<Axis> axes;    // of value's dims
  double scale = 1;          // product of the scalar factors on the way
  std::int64_t repeats = 1;  // consecutive heads that read each head of `value`
};

/// Moves `traced` to the operand of its value's producer. Returns false, without a change, if that
/// is neither a view with a label for each axis nor a product with a scalar.
bool trace_up(const Rewriter& rw, Traced& traced);

/// Returns `axes` of a rank-4 value with a batch of 1 first; dims of 1 get the labels that are
/// missing, heads before tokens. nullopt if the result is neither kSequenceFirstAxes nor
/// kHeadsFirstAxes.
std::optional<std::vector<Axis>> four_axes(const Rewriter& rw, const Traced& traced);

inline const std::vector<Axis> kSequenceFirstAxes{Axis::kUnit, Axis::kTokens, Axis::kHeads,
                                                  Axis::kDim};
inline const std::vector<Axis> kHeadsFirstAxes{Axis::kUnit, Axis::kHeads, Axis::kTokens,
                                               Axis::kDim};

/// Returns `axes` with kUnit for each dim of 1.
std::vector<Axis> label(const std::vector<ir::Dim>& dims, std::vector<Axis> axes);

}  // namespace llmc::passes
