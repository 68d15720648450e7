#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/plan/size.h"
#include "compiler/support/result.h"

/// Sizes of the symbolic dims of plain graphs (--dim).
namespace llmc::driver {

/// Assigns sizes to the symbols in the shapes of the inputs and infers all types again. Symbols
/// with a range remain symbolic; a Min or Max of two sizes that the ranges decide is replaced. The
/// keys of `dims` are symbols, or sums that occur in the input shapes ("past_sequence_length + 1").
/// Fails with kUsage for an unknown name, contradictory sizes, a negative size, a size of 0 with
/// which every output is empty, a range that is empty or contains 0, and a range of a sum.
Result<ir::Graph> bind_dims(ir::Graph graph, const plan::DimRanges& dims);

/// Largest number of tokens that usual_dims() plans for.
inline constexpr std::int64_t kUsualBound = 512;
/// Returns sizes for the symbols of a graph for which none are given: 1 for the batch, which is
/// named so or is the first dim of 4 or more, and, if there is one other symbol, a usual range. If
/// only inputs of integers have it, it is 1 to kUsualBound tokens. In a graph with convolutions,
/// the last dim of a float input [batch, samples] has up to CompileOptions::kDefaultSamples, and
/// that of [batch, bands, frames] up to kDefaultFrames; the range begins where each output has
/// elements, and ends where a table of positions does. Other symbols have no usual size; for a
/// graph with such ones the result is empty.
plan::DimRanges usual_dims(const ir::Graph& graph);
/// Returns the flags that set `dims`: "--dim batch_size=1 --dim length=1..512".
std::string dim_flags(const plan::DimRanges& dims);

/// Returns the flags that set all symbolic sizes of the graph's inputs that `given` does not set:
/// "--dim batch_size=1 --dim length=N". Empty if there are none.
std::string missing_dims(const ir::Graph& graph, const plan::DimRanges& given = {});

}  // namespace llmc::driver
