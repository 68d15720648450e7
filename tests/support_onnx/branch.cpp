#include <algorithm>

#include "tests/support_onnx/tiny_decoder.h"

namespace llmc::testing {

void put_into_branch(OnnxBuilder& b, const std::vector<std::string>& outputs) {
  onnx::GraphProto body;
  body.set_name("then");
  body.mutable_node()->Swap(b.graph().mutable_node());
  for (const auto& name : outputs) body.add_output()->set_name(name + "/then");
  for (auto& node : *body.mutable_node()) {
    for (auto& name : *node.mutable_output())
      if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) name += "/then";
    for (auto& name : *node.mutable_input())
      if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) name += "/then";
  }
  onnx::GraphProto other;
  other.set_name("else");
  auto& unknown = *other.add_node();
  unknown.set_op_type("NobodyKnows");
  for (const auto& name : outputs) {
    unknown.add_output(name + "/else");
    other.add_output()->set_name(name + "/else");
  }
  auto& node = b.raw_node("If", {"use_cache_branch"}, outputs);
  for (const auto& [name, graph] :
       {std::pair("else_branch", other), std::pair("then_branch", body)}) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    *attribute.mutable_g() = graph;
  }
}

}  // namespace llmc::testing
