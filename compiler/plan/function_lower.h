#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/plan/function.h"
#include "compiler/plan/function_attention.h"

/// From a graph with fixed shapes to a FunctionProgram. Elementwise operators become expressions
/// and views of expressions; a value is stored where more than one loop, a kernel or the caller
/// needs it. One file per family: function_lower_*.cpp.
namespace llmc::plan {

class FunctionLowering {
 public:
  FunctionLowering(const ir::Graph& graph, const std::vector<ir::Value>& inputs)
      : graph_(graph), uses_(graph), inputs_(inputs) {}

  Result<FunctionProgram> run();

 private:
  // ---- operators (function_lower_*.cpp). An error is one unsupported node.
  Status lower(const ir::Node& node, const ir::ConstantOp& op);
  Status lower(const ir::Node& node, const ir::Cast& op);
  Status lower(const ir::Node& node, const ir::Reshape& op);
  Status lower(const ir::Node& node, const ir::Transpose& op);
  Status lower(const ir::Node& node, const ir::Concat& op);
  Status lower(const ir::Node& node, const ir::Split& op);
  Status lower(const ir::Node& node, const ir::Slice& op);
  Status lower(const ir::Node& node, const ir::Squeeze& op);
  Status lower(const ir::Node& node, const ir::Unsqueeze& op);
  Status lower(const ir::Node& node, const ir::Gather& op);
  Status lower(const ir::Node& node, const ir::Expand& op);
  Status lower(const ir::Node& node, const ir::Tile& op);
  Status lower(const ir::Node& node, const ir::Shape& op);
  Status lower(const ir::Node& node, const ir::ConstantOfShape& op);
  Status lower(const ir::Node& node, const ir::Range& op);
  Status lower(const ir::Node& node, const ir::Trilu& op);
  Status lower(const ir::Node& node, const ir::Unary& op);
  Status lower(const ir::Node& node, const ir::Binary& op);
  Status lower(const ir::Node& node, const ir::Where& op);
  Status lower(const ir::Node& node, const ir::MatMul& op);
  Status lower(const ir::Node& node, const ir::Gemm& op);
  Status lower(const ir::Node& node, const ir::Softmax& op);
  Status lower(const ir::Node& node, const ir::Reduce& op);
  Status lower(const ir::Node& node, const ir::ArgMax& op);
  Status lower(const ir::Node& node, const ir::LayerNorm& op);
  Status lower(const ir::Node& node, const ir::RmsNorm& op);
  Status lower(const ir::Node& node, const ir::GatedActivation& op);
  Status lower(const ir::Node& node, const ir::GatherElements& op);
  Status lower(const ir::Node& node, const ir::GatherNd& op);
  Status lower(const ir::Node& node, const ir::ScatterElements& op);
  Status lower(const ir::Node& node, const ir::ScatterNd& op);
  Status lower(const ir::Node& node, const ir::Pad& op);
  Status lower(const ir::Node& node, const ir::TopK& op);
  Status lower(const ir::Node& node, const ir::CumSum& op);
  /// Stages of decoders, which no function holds.
  template <class T>
  Status lower(const ir::Node& node, const T&) {
    return unsupported(node, "functions have no code for this operator");
  }

  // ---- values
  const Sizes& dims(ir::ValueId value) const { return values_.at(value).dims; }
  ir::ElementType element(ir::ValueId value) const { return graph_.value(value).type.element; }
  const ExpressionPtr& expression(ir::ValueId value);  // of a constant: made when first asked for
  /// The value's expression over `dims`, which it broadcasts to.
  ExpressionPtr broadcast_to(ir::ValueId value, const Sizes& dims);
  void set(ir::ValueId value, ExpressionPtr expression);
  /// The constant behind a value, or nullptr; its integers where it has to be known.
  ir::ConstantPtr constant(ir::ValueId value) const { return uses_.constant(value); }
  Result<std::vector<std::int64_t>> integers(const ir::Node& node, std::size_t operand) const;
  bool has(const ir::Node& node, std::size_t operand) const {
    return operand < node.inputs.size() && node.inputs[operand].exists();
  }

  // ---- storage
  /// A view of the value in memory in the type it is computed in (16-bit floats widened); stores it
  /// when it is no view yet, or `dense` and not row-major.
  View stored(ir::ValueId value, bool dense = true);
  /// The same of an expression that is no value of the graph.
  View stored(const ExpressionPtr& expression, const Sizes& dims, ir::ElementType type,
              const std::string& comment);
  /// The value row-major in memory, in the type it happens to have there.
  struct Stored {
    View view;
    ir::ElementType type = ir::ElementType::kF32;
  };
  Stored stored_as_it_is(ir::ValueId value);
  static BufferArgument read(const View& view) { return {view.buffer, view.offset, false}; }
  static BufferArgument written(const View& view) { return {view.buffer, view.offset, true}; }
  /// Where a kernel writes a value: the caller's memory when it is an output of that type, else
  /// arena. Sets the value.
  View result(ir::ValueId value);
  std::uint32_t scratch(ir::ElementType element, std::int64_t count, const std::string& name);
  std::uint32_t weight(ir::ConstantPtr data, WeightLayout layout, ir::ValueId value);
  void emit(const ir::Node& node, MapStage stage);
  void emit(const ir::Node& node, KernelStage stage);

  // ---- shared by families
  Status lower_view(const ir::Node& node, const std::function<std::optional<View>(const View&)>& f);
  /// y = a @ b over views with batch dims in front; `y` dense.
  Status product_of(const ir::Node& node, ir::ElementType type, View a, View b, View y,
                    ir::ConstantPtr b_data, bool b_transposed, ir::ValueId b_value);
  struct AxisSplit {
    std::int64_t outer = 1, size = 1, inner = 1;
  };
  static AxisSplit around(const Sizes& dims, std::size_t axis);

  Diagnostic unsupported(const ir::Node& node, std::string message) const;

  struct Lowered {
    Sizes dims;
    ExpressionPtr expression;
  };

  Status prepare_values();
  void find_attention();
  void lower_attention(const ir::Node& node, const AttentionPattern& pattern);
  Status finish_outputs();
  /// For each value the value whose loop computes it: itself when it is stored.
  void find_sinks();
  bool fits_a_loop(const ExpressionPtr& expression) const;
  std::string unique_name(Place place, std::string_view wanted);
  std::uint32_t add_buffer(FunctionBuffer buffer);
  std::string describe(const ir::Node& node) const;

  const ir::Graph& graph_;
  const ir::UseDef uses_;
  const std::vector<ir::Value>& inputs_;
  FunctionProgram program_;
  std::map<ir::ValueId, Lowered> values_;
  std::map<ir::ValueId, ir::ValueId> sinks_;
  std::map<ir::ValueId, std::uint32_t> output_slot_;  // first output that is this value
  std::map<std::pair<const ir::Constant*, WeightLayout>, std::uint32_t> weights_;
  std::map<std::string, int> names_, suffixes_;
  std::map<const ir::Node*, AttentionPattern> attention_;  // by the last product
  std::set<const ir::Node*> absorbed_;                     // what those compute as well
  const ir::Node* current_ = nullptr;
};

/// What a value of this type is computed in, and kept in between stages: f32 for 16-bit floats.
ir::ElementType computed_in(ir::ElementType element);

}  // namespace llmc::plan
