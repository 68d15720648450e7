#include <algorithm>

#include "compiler/ir/hadamard.h"
#include "passes/product_weights.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

/// Number of columns that share the scale of an activation: kSuper of templates/llmc/quant.
constexpr std::int64_t kSuperblock = 256;

/// Returns the attribute `hadamard` of a product.
template <class Op>
auto& superblock_of(Op& op) {
  if (auto* linear = std::get_if<ir::Linear>(&op)) return linear->hadamard;
  if (auto* experts = std::get_if<ir::ExpertLinear>(&op)) return experts->hadamard;
  return std::get<ir::QkvProjection>(op).hadamard;
}

bool can_be_transformed(const ir::ConstantPtr& matrix) {
  return matrix->dims().size() == 2 && is_float(matrix->element()) &&
         ir::has_hadamard_basis(matrix->dims()[1], kSuperblock) && !ir::has_quantized_rows(*matrix);
}

}  // namespace

Result<ir::Graph> hadamard_inputs(ir::Graph graph, const PassContext&) {
  rewrite_weights(graph,
                  {.wants = [](const ir::Op& op) { return superblock_of(op) == 0; },
                   .applies = [](auto all) { return std::ranges::all_of(all, can_be_transformed); },
                   .make = [](const auto& w) { return ir::hadamard_weight(w, kSuperblock); },
                   .replaced = [](ir::Op& op) { superblock_of(op) = kSuperblock; }});
  return graph;
}

}  // namespace llmc::passes
