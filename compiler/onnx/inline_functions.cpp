#include "compiler/onnx/inline_functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <set>

#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using onnx::AttributeProto;
using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::NodeProto;

constexpr std::int64_t kMaxNodes = 1 << 20;
constexpr int kMaxInlineDepth = 64;
constexpr std::size_t kMaxPrefix = 120;  // maximum length of the caller's name in value names

using FunctionKey = std::array<std::string, 3>;  // domain, name, overload
using Names = std::map<std::string, std::string>;

/// Returns the contents of the length-delimited fields with this number, which the protobuf classes
/// of older ONNX releases treat as unknown.
template <class Proto>
std::vector<std::string> newer_fields(const Proto& message, int number) {
  std::vector<std::string> found;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == number &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      found.push_back(field.length_delimited());
  }
  return found;
}

/// Field numbers in onnx.proto that were added with IR versions 9 and 10.
constexpr int kNodeOverload = 8, kFunctionDefaults = 11, kFunctionOverload = 13;

template <class Proto>
std::string overload_of(const Proto& message, int number) {
  const auto found = newer_fields(message, number);
  return found.empty() ? std::string() : found.back();
}

std::string call_name(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

class Inliner {
 public:
  Inliner(OnnxFile& file, std::uint64_t max_bytes) : file_(file), bytes_left_(max_bytes) {
    for (const auto& function : file.model.functions()) {
      const FunctionKey key{std::string(plain_domain(function.domain())), function.name(),
                            overload_of(function, kFunctionOverload)};
      if (!functions_.emplace(key, &function).second && !defined_twice_) defined_twice_ = &function;
      auto& defaults = defaults_[&function];
      for (const auto& bytes : newer_fields(function, kFunctionDefaults)) {
        AttributeProto attribute;
        if (attribute.ParseFromString(bytes)) defaults.push_back(std::move(attribute));
      }
    }
    collect_names(*file.model.mutable_graph());
  }

  Status run() {
    if (functions_.empty()) return ok_status();
    if (defined_twice_) {
      return Diagnostic{.file = file_.name,
                        .node = defined_twice_->name(),
                        .message = "two functions of domain '" +
                                   printable(defined_twice_->domain(), 80) + "' have this name",
                        .hint = "remove one of them, or give them different overloads"};
    }
    return expand(*file_.model.mutable_graph(), 0);
  }

 private:
  Diagnostic bad(const NodeProto& node, std::string message) const {
    return Diagnostic{.file = file_.name,
                      .node = call_name(node),
                      .op = node.op_type(),
                      .message = std::move(message)};
  }

  void collect_names(GraphProto& graph) {
    for (const auto& value : graph.input()) taken_.insert(value.name());
    for (const auto& tensor : graph.initializer()) taken_.insert(tensor.name());
    for (auto& node : *graph.mutable_node()) {
      set_own_opset(node, std::nullopt);  // set only by inlining, never by a file
      for (const auto& name : node.output()) taken_.insert(name);
      for (auto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) collect_names(*attribute.mutable_g());
    }
  }

  const FunctionProto* callee(const NodeProto& node) const {
    const auto it = functions_.find({std::string(plain_domain(node.domain())), node.op_type(),
                                     overload_of(node, kNodeOverload)});
    return it == functions_.end() ? nullptr : it->second;
  }

  /// Replaces the calls in a graph and its subgraphs.
  Status expand(GraphProto& graph, int depth) {
    google::protobuf::RepeatedPtrField<NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (auto& node : nodes) LLMC_RETURN_IF_ERROR(append(graph, std::move(node), depth));
    return ok_status();
  }

  Status append(GraphProto& graph, NodeProto node, int depth) {
    if (depth > kMaxInlineDepth) return bad(node, "functions and graphs are nested too deeply");
    if (++count_ > kMaxNodes) return bad(node, "functions expand to more than a million nodes");
    if (const FunctionProto* function = callee(node)) {
      if (std::ranges::find(stack_, function) != stack_.end())
        return bad(node, "is a function that calls itself");
      stack_.push_back(function);
      LLMC_RETURN_IF_ERROR(call(graph, node, *function, depth));
      stack_.pop_back();
      return ok_status();
    }
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) LLMC_RETURN_IF_ERROR(expand(*attribute.mutable_g(), depth + 1));
    *graph.add_node() = std::move(node);
    return ok_status();
  }

  std::string fresh(const std::string& stem) {
    if (taken_.insert(stem).second) return stem;
    int& last = last_of_stem_.try_emplace(stem, 1).first->second;
    std::string name;
    do name = stem + "_" + std::to_string(++last);
    while (!taken_.insert(name).second);
    return name;
  }

  Status call(GraphProto& graph, const NodeProto& node, const FunctionProto& function, int depth) {
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
      return bad(node, "is a function with fewer parameters or results than the call has");
    std::string prefix = call_name(node);
    if (prefix.size() > kMaxPrefix)  // keep both ends of the path
      prefix =
          prefix.substr(0, kMaxPrefix / 2) + "~" + prefix.substr(prefix.size() - kMaxPrefix / 2);
    prefix += "/";
    Names names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < node.input_size() ? node.input(i) : std::string();
    // Results get the caller's names. A parameter that is returned unchanged, or a result that is
    // returned twice, gets an Identity.
    std::vector<std::pair<std::string, std::string>> passed;  // inner, outer
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      if (!names.emplace(function.output(i), node.output(i)).second)
        passed.emplace_back(function.output(i), node.output(i));
    }
    for (const auto& inner : function.node()) {
      NodeProto copy = inner;
      LLMC_RETURN_IF_ERROR(rename(copy, names, prefix, node, function, depth));
      copy.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
      note_opset(copy, function);
      const std::uint64_t bytes = copy.ByteSizeLong();
      if (bytes > bytes_left_) {
        Diagnostic d = bad(node, "expanded functions exceed the size limit of a model's graph");
        d.kind = ErrorKind::kOverBudget;
        return d;
      }
      bytes_left_ -= bytes;
      LLMC_RETURN_IF_ERROR(append(graph, std::move(copy), depth + 1));
    }
    for (const auto& [inner, outer] : passed) {
      NodeProto copy;
      copy.set_op_type("Identity");
      copy.set_name(prefix + "result");
      copy.add_input(names.at(inner));
      copy.add_output(outer);
      *graph.add_node() = std::move(copy);
    }
    return ok_status();
  }

  /// Records the operator-set version of a function's node if it differs from the model's.
  void note_opset(NodeProto& node, const FunctionProto& function) const {
    set_own_opset(node, std::nullopt);
    for (const auto& set : function.opset_import()) {
      if (plain_domain(set.domain()) != plain_domain(node.domain())) continue;
      if (set.version() != file_.opset(node.domain())) set_own_opset(node, set.version());
    }
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g())
        for (auto& inner : *attribute.mutable_g()->mutable_node()) note_opset(inner, function);
  }

  Status rename(NodeProto& node, Names& names, const std::string& prefix, const NodeProto& caller,
                const FunctionProto& function, int depth) {
    if (depth > kMaxInlineDepth) return bad(caller, "functions and graphs are nested too deeply");
    for (auto& name : *node.mutable_input()) name = inner_name(name, names, prefix);
    for (auto& name : *node.mutable_output()) name = inner_name(name, names, prefix);
    google::protobuf::RepeatedPtrField<AttributeProto> attributes;
    attributes.Swap(node.mutable_attribute());
    for (auto& attribute : attributes) {
      if (!attribute.ref_attr_name().empty()) {
        const AttributeProto* given = given_attribute(attribute.ref_attr_name(), caller, function);
        if (!given) continue;
        auto* copy = node.add_attribute();
        *copy = *given;
        copy->set_name(attribute.name());
        continue;
      }
      auto* copy = node.add_attribute();
      *copy = std::move(attribute);
      if (!copy->has_g()) continue;
      GraphProto& graph = *copy->mutable_g();
      for (auto& tensor : *graph.mutable_initializer())
        tensor.set_name(inner_name(tensor.name(), names, prefix));
      for (auto& value : *graph.mutable_input())
        value.set_name(inner_name(value.name(), names, prefix));
      for (auto& inner : *graph.mutable_node())
        LLMC_RETURN_IF_ERROR(rename(inner, names, prefix, caller, function, depth + 1));
      for (auto& value : *graph.mutable_output())
        value.set_name(inner_name(value.name(), names, prefix));
    }
    return ok_status();
  }

  std::string inner_name(const std::string& name, Names& names, const std::string& prefix) {
    if (name.empty()) return name;
    const auto [it, is_new] = names.emplace(name, std::string());
    if (is_new) it->second = fresh(prefix + name);
    return it->second;
  }

  const AttributeProto* given_attribute(const std::string& name, const NodeProto& caller,
                                        const FunctionProto& function) const {
    if (const auto* given = find_attribute(caller, name)) return given;
    for (const auto& attribute : defaults_.at(&function))
      if (attribute.name() == name) return &attribute;
    return nullptr;
  }

  OnnxFile& file_;
  std::uint64_t bytes_left_;  // for expanded calls
  std::map<FunctionKey, const FunctionProto*> functions_;
  const FunctionProto* defined_twice_ = nullptr;
  std::map<const FunctionProto*, std::vector<AttributeProto>> defaults_;
  std::set<std::string> taken_;
  std::map<std::string, int> last_of_stem_;  // last number appended to a name already in use
  std::vector<const FunctionProto*> stack_;
  std::int64_t count_ = 0;
};

}  // namespace

Status inline_functions(OnnxFile& file, std::uint64_t max_bytes) {
  return Inliner(file, max_bytes).run();
}

}  // namespace llmc::importer
