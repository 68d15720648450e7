#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/plan/size.h"
#include "compiler/support/result.h"

/// Sizes of the symbolic dims of plain graphs (--dim).
namespace llmc::driver {

/// Assigns sizes to the symbols in the shapes of the inputs and infers all types again. Symbols
/// with a range remain symbolic. A Min or Max of two sizes is replaced by one of them if that is
/// the result for all sizes in the ranges. The keys of `dims` are symbols, or sums of symbols
/// ("past_sequence_length + 1"). Fails with kUsage for an unknown name, contradictory sizes, a
/// negative size, a size above plan::kMaxElements, a size of 0 with which every output is empty, a
/// range that is empty or begins below 1, a range of a sum, and a size of a sum of which a symbol
/// has a range. Errors of ir::infer_graph() are kUsage, too, because the operators accepted the
/// symbols.
Result<ir::Graph> bind_dims(ir::Graph graph, const plan::DimRanges& dims);

/// Maximum number of tokens in the result of usual_dims().
inline constexpr std::int64_t kUsualBound = 512;
/// Returns default sizes for the symbols of a graph. Batch symbols get the size 1: their name
/// contains "batch", or they are the first of at least four dims. One other symbol may get a range.
/// If only integer inputs have the symbol, its maximum is kUsualBound tokens. In a graph with
/// convolutions, it may also be the last dim of a float input: the maximum is
/// CompileOptions::kDefaultSamples for [batch, samples], and kDefaultFrames for
/// [batch, bands, frames]. A position table lowers the maximum to its size. The minimum is the
/// smallest size for which every output has elements. Empty if the graph has other symbols, or does
/// not accept these sizes.
plan::DimRanges usual_dims(const ir::Graph& graph);
/// Returns the flags that set `dims`: "--dim batch_size=1 --dim length=1..512".
std::string dim_flags(const plan::DimRanges& dims);

/// Returns the flags that set all symbolic sizes of the graph's inputs that `given` does not set:
/// "--dim batch_size=1 --dim length=N". Lists at most 32 flags, then an ellipsis if there are more.
/// Empty if there are none.
std::string missing_dims(const ir::Graph& graph, const plan::DimRanges& given = {});

}  // namespace llmc::driver
