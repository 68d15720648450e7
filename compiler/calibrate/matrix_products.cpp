#include "compiler/calibrate/matrix_products.h"

#include <map>

namespace llmc::calibrate {

bool is_matrix_product(const ir::Node& node) {
  return std::holds_alternative<ir::Linear>(node.op) ||
         std::holds_alternative<ir::QkvProjection>(node.op) ||
         std::holds_alternative<ir::ExpertLinear>(node.op);
}

std::size_t blocks_of(const ir::Node& node) {
  const auto* experts = std::get_if<ir::ExpertLinear>(&node.op);
  return experts ? static_cast<std::size_t>(experts->experts) : 1;
}

ir::WeightRole role_of(const ir::Node& node) {
  if (const auto* linear = std::get_if<ir::Linear>(&node.op)) return linear->role;
  if (const auto* experts = std::get_if<ir::ExpertLinear>(&node.op)) return experts->role;
  return std::get<ir::QkvProjection>(node.op).role;
}

std::vector<Product> products_of(const ir::Graph& stages) {
  std::vector<Product> found;
  std::map<ir::ValueId, ir::ConstantPtr> constants;
  for (std::size_t n = 0; n < stages.nodes().size(); ++n) {
    const ir::Node& node = stages.nodes()[n];
    if (const auto* constant = std::get_if<ir::ConstantOp>(&node.op)) {
      constants[node.outputs[0]] = constant->data;
    } else if (const auto* loop = std::get_if<ir::Loop>(&node.op)) {
      for (std::int64_t i = 0; i < loop->count; ++i) {
        std::map<ir::ValueId, ir::ConstantPtr> inside;  // ConstantOps and Parameters of the body
        for (std::size_t j = 0; j < loop->body->nodes().size(); ++j) {
          const ir::Node& inner = loop->body->nodes()[j];
          if (const auto* parameter = std::get_if<ir::Parameter>(&inner.op))
            inside[inner.outputs[0]] = loop->parameters[static_cast<std::size_t>(parameter->index)]
                                                       [static_cast<std::size_t>(i)];
          if (const auto* shared = std::get_if<ir::ConstantOp>(&inner.op))
            inside[inner.outputs[0]] = shared->data;
          const auto weight =
              is_matrix_product(inner) ? inside.find(inner.inputs[1]) : inside.end();
          if (weight != inside.end()) found.push_back({n, i, j, weight->second});
        }
      }
    } else if (is_matrix_product(node)) {
      const auto weight = constants.find(node.inputs[1]);
      if (weight != constants.end()) found.push_back({n, -1, 0, weight->second});
    }
  }
  std::erase_if(found, [](const Product& product) { return product.weight->dims().size() != 2; });
  return found;
}

const ir::Node& node_of(const ir::Graph& stages, const Product& product) {
  const ir::Node& node = stages.nodes().at(product.node);
  return product.iteration < 0 ? node : std::get<ir::Loop>(node.op).body->nodes().at(product.inner);
}

}  // namespace llmc::calibrate
