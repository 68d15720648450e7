#include <fmt/format.h>

#include <cmath>

#include "compiler/ir/op_info.h"
#include "compiler/ir/quote.h"
#include "compiler/ir/text.h"

namespace llmc::ir {
namespace {

std::string constant_text(const ConstantPtr& data) {
  if (!data) return "missing";  // verify rejects this, but an invalid graph must still be printable
  const TensorType type{data->element(), {data->dims().begin(), data->dims().end()}};
  return to_string(type) + " " + data->describe();
}

// ---- Attribute values ---------------------------------------------------------------------------

template <class T>
std::string attributes_text(const T& op);

std::string attribute_text(std::int64_t value) {
  return std::to_string(value);
}
std::string attribute_text(bool value) {
  return value ? "true" : "false";
}
std::string attribute_text(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fmt::format("{}", value);
}
std::string attribute_text(const std::vector<std::int64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}
std::string attribute_text(const ConstantPtr& value) {
  return constant_text(value);
}
template <class E>
  requires std::is_enum_v<E>
std::string attribute_text(E value) {
  const auto index = static_cast<std::size_t>(value);
  LLMC_CHECK(index < EnumInfo<E>::names.size());
  return std::string(EnumInfo<E>::names[index]);
}
std::string attribute_text(const std::optional<float>& value) {
  return value ? attribute_text(*value) : "none";
}
std::string attribute_text(const std::optional<Rope>& value) {
  return value ? attributes_text(*value) : "none";
}

template <class T>
bool is_default(const T& value, const T& standard) {
  return value == standard;
}
bool is_default(const std::optional<Rope>& value, const std::optional<Rope>&) {
  return !value.has_value();
}

/// Returns "{name = value, …}", or nothing if all attributes have their defaults.
template <class T>
std::string attributes_text(const T& op) {
  std::string out;
  for_each_field<T>([&](const auto& f) {
    if (f.print_rule == PrintRule::kUnlessDefault && is_default(op.*f.member, T{}.*f.member))
      return;
    out += out.empty() ? "{" : ", ";
    out += fmt::format("{} = {}", f.name, attribute_text(op.*f.member));
  });
  return out.empty() ? out : out + "}";
}

// ---- Graphs -------------------------------------------------------------------------------------

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph), numbers_(graph.values().size(), 0) {
    // Values without a name are numbered in the order of their definitions, so that the text does
    // not depend on how the graph was built.
    auto number = [&, next = std::size_t{0}](ValueId id) mutable {
      if (id.index < numbers_.size() && graph_.value(id).name.empty()) numbers_[id.index] = next++;
    };
    for (const ValueId id : graph.inputs()) number(id);
    for (const Node& node : graph.nodes())
      for (const ValueId id : node.outputs) number(id);
  }

  /// Appends the graph to `out`. `header` is its keyword, "graph" or "body".
  void print_graph(std::string& out, const char* header, const std::string& indent) const {
    out += fmt::format("{} @{}(", header, name_text(graph_.name));
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      const Value& input = graph_.value(id);
      out += fmt::format("{}{}: {}", i > 0 ? ", " : "", value_text(id), to_string(input.type));
      const std::string attributes = attributes_text(input);
      if (!attributes.empty()) out += " " + attributes;
    }
    out += ") {\n";
    for (const Node& node : graph_.nodes()) {
      out += indent + "  ";
      print_node(out, node, indent + "  ");
      out += "\n";
    }
    out += indent + "  return";
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      out += (i > 0 ? ", " : " ") + value_text(graph_.outputs()[i]);
    out += "\n" + indent + "}";
  }

  void print_node(std::string& out, const Node& node, const std::string& indent) const {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      out += (i > 0 ? ", " : "") + value_text(node.outputs[i]);
    out += fmt::format(" = {}", op_name(node.op));
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      out += (i > 0 ? ", " : " ") + value_text(node.inputs[i]);
    const auto attributes = std::visit([](const auto& op) { return attributes_text(op); }, node.op);
    if (!attributes.empty()) out += " " + attributes;
    if (const auto* constant = std::get_if<ConstantOp>(&node.op)) {
      out += " " + constant_text(constant->data);
    } else {
      if (const auto* loop = std::get_if<Loop>(&node.op)) print_loop(out, *loop, indent);
      out += " : ";
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        out += (i > 0 ? ", " : "") + to_string(graph_.value(node.outputs[i]).type);
    }
    if (!node.origin.file.empty() || !node.origin.node.empty())
      out += fmt::format(" @{} {}", llmc::ir::quoted(node.origin.file),
                         llmc::ir::quoted(node.origin.node));
  }

 private:
  std::string value_text(ValueId id) const {
    if (!id.exists()) return "_";
    if (id.index >= graph_.values().size()) return "%\"<no such value>\"";
    const auto& name = graph_.value(id).name;
    return "%" + (name.empty() ? std::to_string(numbers_[id.index]) : name_text(name));
  }

  void print_loop(std::string& out, const Loop& loop, const std::string& indent) const {
    const std::string inner = indent + "  ";
    out += "\n" + inner + "parameters [";
    for (std::size_t p = 0; p < loop.parameters.size(); ++p) {
      out += fmt::format("{}\n{}  [", p > 0 ? "," : "", inner);
      for (std::size_t i = 0; i < loop.parameters[p].size(); ++i) {
        const bool named = p < loop.parameter_names.size() && i < loop.parameter_names[p].size();
        out += fmt::format("{}{} {}", i > 0 ? ", " : "",
                           llmc::ir::quoted(named ? loop.parameter_names[p][i] : ""),
                           constant_text(loop.parameters[p][i]));
      }
      out += "]";
    }
    out += "]\n" + inner;
    if (loop.body) {
      Printer(*loop.body).print_graph(out, "body", inner);
    } else {
      out += "missing";
    }
  }

  const Graph& graph_;
  std::vector<std::size_t> numbers_;
};

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  Printer(graph).print_graph(out, "graph", "");
  return out + "\n";
}

std::string print(const Graph& graph, const Node& node) {
  std::string out;
  Printer(graph).print_node(out, node, "");
  return out;
}

}  // namespace llmc::ir
