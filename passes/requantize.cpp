#include <algorithm>

#include "passes/product_weights.h"
#include "passes/transforms.h"

namespace llmc::passes {

Result<ir::Graph> requantize(ir::Graph graph, const PassContext& context) {
  if (!context.options.requantize) return graph;
  const auto has_codes = [](const ir::ConstantPtr& w) { return ir::has_quantized_rows(*w); };
  rewrite_weights(graph, {.wants = [](const ir::Op&) { return true; },
                          .applies = [&](auto all) { return std::ranges::any_of(all, has_codes); },
                          .make = [](const auto& w) { return ir::as_floats(w); },
                          .replaced = [](ir::Op&) {}});
  return graph;
}

}  // namespace llmc::passes
