#include "passes/quantize.h"

#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::WeightFormat;

void set_format(ir::Op& op, WeightFormat format) {
  if (auto* linear = std::get_if<ir::Linear>(&op); linear && linear->format == WeightFormat::kUnset)
    linear->format = format;
  if (auto* qkv = std::get_if<ir::QkvProjection>(&op); qkv && qkv->format == WeightFormat::kUnset)
    qkv->format = format;
  if (auto* loop = std::get_if<ir::Loop>(&op)) {
    auto body = std::make_shared<ir::Graph>(*loop->body);
    for (ir::Node& node : body->mutable_nodes()) set_format(node.op, format);
    loop->body = std::move(body);
  }
}

}  // namespace

Result<ir::Graph> quantize(ir::Graph graph, const PassContext& context) {
  const ir::Node* head = nullptr;
  {
    const ir::UseDef uses(graph);
    ir::ValueId value = graph.outputs().empty() ? ir::kNoValue : graph.outputs().front();
    const auto is_view = [](const ir::Node* node) {
      return ir::op_as<ir::Reshape>(node) || ir::op_as<ir::Squeeze>(node) ||
             ir::op_as<ir::Unsqueeze>(node);
    };
    while (value.exists() && is_view(uses.producer(value))) value = uses.producer(value)->inputs[0];
    if (value.exists()) head = uses.producer(value);
  }
  for (ir::Node& node : graph.mutable_nodes())
    set_format(node.op, &node == head ? context.options.head : context.options.weights);
  return graph;
}

}  // namespace llmc::passes
