#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/tensor.h"

/// Evaluation of a graph before and after passes, on the same random inputs.
namespace llmc::passes::testing {

using Inputs = std::map<std::string, reference::Tensor>;
using Bindings = std::map<std::string, std::int64_t>;

/// Returns a tensor for each input of `graph`, by name: floats in [-1, 1), the mask causal over
/// past + seq keys, integers with "position" in their name counting from `past`, other
/// integers in 0 … 4.
Inputs make_inputs(const ir::Graph& graph, const Bindings& bindings, std::uint64_t seed);

/// Returns the outputs by name ("#n" for those without). Fails the test if the evaluation fails.
std::map<std::string, reference::Tensor> evaluate(const ir::Graph& graph, const Inputs& inputs);

/// Expects that both graphs compute the same outputs: floats within `tolerance` * max(1, |a|),
/// integers equal.
void expect_same_results(const ir::Graph& a, const ir::Graph& b, const Inputs& inputs,
                         double tolerance);

/// Returns whether inputs with the same name have the same type.
bool have_same_inputs(const ir::Graph& a, const ir::Graph& b);
/// Compares graphs with different caches past.N: runs `past` tokens, then `seq` tokens with the
/// caches present.N of the first run, and compares the other outputs like expect_same_results().
void expect_same_texts(const ir::Graph& a, const ir::Graph& b, std::int64_t seq, std::int64_t past,
                       std::uint64_t seed, double tolerance);

}  // namespace llmc::passes::testing
