#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/plan/program.h"

/// Operators that no fused kernel computes become loop nests: elementwise operators are
/// expressions, views are expressions too, and a value is stored where more than one nest, a kernel
/// or the caller reads it. One file per family of operators: nest_*.cpp.
namespace llmc::plan {

/// Maximum number of operations of one nest.
inline constexpr std::size_t kMaxExpressionNodes = 96;

/// Maximum number of elements of a value: more cannot be allocated, and arithmetic on sizes up to it
/// does not overflow.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

/// What loop nests need of the lowering of a graph. Dims are those of one row: in a decoder the
/// `seq` dim counts 1, because nests run once for every token.
class NestHost {
 public:
  /// Returns the dims of a value of this type for one row; nullopt when they are not known.
  virtual std::optional<Sizes> sizes(const ir::TensorType& type) const = 0;
  /// Whether nests run once for every token, as in a decoder.
  virtual bool by_token() const = 0;
  /// Returns the elements of an integer value that are sizes, some of them open; nullopt for all
  /// other values.
  virtual std::optional<Sizes> elements(ir::ValueId value) const = 0;
  /// Returns the elements of a value that no nest computes: an input, an activation, a weight.
  virtual ExpressionPtr outside(ir::ValueId value, const Sizes& dims) = 0;
  /// Returns the constant that a value is, or nullptr.
  virtual ir::ConstantPtr constant(ir::ValueId value) const = 0;
  /// Returns the buffer of a constant that nests read; `value` names it.
  virtual std::uint32_t data(ir::ConstantPtr data, WeightUse use, ir::ValueId value) = 0;
  /// Returns a new buffer of `count` elements for `node`.
  virtual std::uint32_t scratch(const ir::Node& node, ir::ElementType element, const Size& count,
                                const std::string& name, std::string comment) = 0;
  /// Returns the caller's buffer of an output, if the value is one.
  virtual std::optional<std::uint32_t> output(ir::ValueId value) const = 0;
  /// Returns the number of elements of a buffer, in a decoder those of one row.
  virtual Size size(std::uint32_t buffer) const = 0;
  /// Returns the maximum number of workers that share one nest.
  virtual std::int64_t workers() const = 0;
  virtual void emit(const ir::Node& node, Stage stage) = 0;

 protected:
  ~NestHost() = default;
};

/// The loop nests of one graph: a plain graph, a decoder, or the body of its layers.
class NestLowerer {
 public:
  NestLowerer(const ir::Graph& graph, const ir::UseDef& uses, NestHost& host);

  /// Dims of a value for one row; nullptr when NestHost::sizes has none.
  const Sizes* dims_of(ir::ValueId value) const;
  /// Whether a result of the node is read, other than for its shape.
  bool is_needed(const ir::Node& node) const;
  /// Lowers a node whose operands all have values. kUnsupported when it cannot be computed row by
  /// row, or there is no nest for it; its results then hold storage that nothing fills, so that
  /// nodes that read them are checked as well.
  Status lower(const ir::Node& node);
  /// kUnsupported unless the open dims of a plain graph's node agree for all their values, which
  /// inference takes for granted (nest_sizes.cpp).
  Status check_sizes(const ir::Node& node) const;
  /// Whether `lower` has given the value an expression.
  bool has(ir::ValueId value) const;
  /// Whether computing the value reads `buffer`.
  bool reads(ir::ValueId value, std::uint32_t buffer) const;
  /// Stores a value that `lower` computed as all elements of one buffer, row-major, and returns
  /// the buffer.
  std::uint32_t store_whole(ir::ValueId value);
  /// Copies a value into the caller's memory, `buffer`, unless it is there already.
  void finish_output(ir::ValueId value, std::uint32_t buffer);

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
  Status lower(const ir::Node& node, const ir::ScaledAttention& op);
  Status lower(const ir::Node& node, const ir::GatherElements& op);
  Status lower(const ir::Node& node, const ir::GatherNd& op);
  Status lower(const ir::Node& node, const ir::ScatterElements& op);
  Status lower(const ir::Node& node, const ir::ScatterNd& op);
  Status lower(const ir::Node& node, const ir::Pad& op);
  Status lower(const ir::Node& node, const ir::TopK& op);
  Status lower(const ir::Node& node, const ir::CumSum& op);
  template <class T>
  Status lower(const ir::Node& node, const T&) {
    return unsupported(node, "no loop nest computes this operator");
  }
  /// Checks that each row of the result depends on the same row of the operands alone
  /// (nest_rows.cpp).
  Status check_rows(const ir::Node& node) const;
  /// Makes the result of a node that computes open sizes those sizes; false for other nodes.
  bool lower_open_sizes(const ir::Node& node);
  Status lower_open_slice(const ir::Node& node);

  // ---- values
  const Sizes& dims(ir::ValueId value) const { return *values_.at(value).dims; }
  ir::ElementType element(ir::ValueId value) const { return graph_.value(value).type.element; }
  const ExpressionPtr& expression(ir::ValueId value);  // of a constant: made when first asked for
  /// The value's expression over `dims`, which it broadcasts to.
  ExpressionPtr broadcast_to(ir::ValueId value, const Sizes& dims);
  void set(ir::ValueId value, ExpressionPtr expression);
  /// The constant behind a value, or nullptr; its integers where it has to be known.
  ir::ConstantPtr constant(ir::ValueId value) const { return host_.constant(value); }
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
  std::uint32_t scratch(ir::ElementType element, const Size& count, const std::string& name) {
    return host_.scratch(*current_, element, count, name, {});
  }
  void emit(const ir::Node& node, MapStage stage);
  void emit(const ir::Node& node, CallStage stage);

  // ---- shared by families
  /// The call with its first number as the count of rows that workers divide among themselves;
  /// `steps`: elements per row of each buffer.
  static CallStage by_rows(CallStage call, const Sizes& steps);
  Status lower_view(const ir::Node& node, const std::function<std::optional<View>(const View&)>& f);
  /// y = a @ b over views with batch dims in front; `y` dense.
  Status product_of(const ir::Node& node, ir::ElementType type, View a, View b, View y,
                    ir::ConstantPtr b_data, bool b_transposed, ir::ValueId b_value);
  struct AxisSplit {
    Size outer = 1, size = 1, inner = 1;
  };
  static AxisSplit around(const Sizes& dims, std::size_t axis);

  Diagnostic unsupported(const ir::Node& node, std::string message) const;
  /// Unsupported because of open dims; the hint is to give them numbers.
  Diagnostic needs_numbers(const ir::Node& node, std::string message) const;

  struct Lowered {
    std::optional<Sizes> dims;
    ExpressionPtr expression;
  };

  /// For each value the value whose loop computes it: itself when it is stored.
  void find_sinks();
  void find_needed();
  bool fits_a_loop(const ExpressionPtr& expression) const;

  const ir::Graph& graph_;
  const ir::UseDef& uses_;
  NestHost& host_;
  std::map<ir::ValueId, Lowered> values_;
  std::map<ir::ValueId, ir::ValueId> sinks_;
  std::vector<bool> needed_;  // by value
  const ir::Node* current_ = nullptr;
};

/// Whether an operand only says what shape the result has, which its type says as well, or which
/// elements a slice has.
bool is_shape_operand(const ir::Node& node, std::size_t operand);

/// Returns n of a dim n * seq, n > 0: the tokens, each with n consecutive elements; else nullopt.
std::optional<std::int64_t> per_token(const ir::Dim& dim);
/// The dim of a type that counts tokens; nullopt when none does.
std::optional<std::size_t> row_axis(const ir::TensorType& type);

/// Dims of one row of a value: the numbers, with n in place of n * seq. nullopt when a dim has
/// another symbol, two dims count tokens, or the size is above 2^40 elements.
std::optional<Sizes> row_dims(const ir::TensorType& type);

/// What a value of this type is computed in, and kept in between stages: f32 for 16-bit floats.
ir::ElementType computed_in(ir::ElementType element);

}  // namespace llmc::plan
