#pragma once

#include "passes/match.h"

/// Where the axes of an attention operand come from, followed upwards through transposes, dims of
/// 1, repeated heads and scalar factors.
namespace llmc::passes {

enum class Axis : std::uint8_t { kUnit /* size 1: any */, kHeads, kGroup, kTokens, kDim };

struct Traced {
  ir::ValueId value;
  std::vector<Axis> axes;    // of value's dims
  double scale = 1;          // product of the factors passed
  std::int64_t repeats = 1;  // each head of `value` stands for this many, in order
};

/// One step up from traced.value; false when its producer is none of those nodes.
bool trace_up(const Rewriter& rw, Traced& traced);

/// `axes` of a rank-4 value with batch first (which must be 1) and the dims of 1 given the labels
/// that are missing, heads before tokens: {kUnit, kTokens, kHeads, kDim} or {kUnit, kHeads,
/// kTokens, kDim}; nullopt when it is neither.
std::optional<std::vector<Axis>> four_axes(const Rewriter& rw, const Traced& traced);

inline const std::vector<Axis> kSequenceFirstAxes{Axis::kUnit, Axis::kTokens, Axis::kHeads,
                                                  Axis::kDim};
inline const std::vector<Axis> kHeadsFirstAxes{Axis::kUnit, Axis::kHeads, Axis::kTokens,
                                               Axis::kDim};

/// Labels of a value of these dims, with dims of 1 as kUnit.
std::vector<Axis> label(const std::vector<ir::Dim>& dims, std::vector<Axis> axes);

}  // namespace llmc::passes
