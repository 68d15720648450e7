#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "compiler/plan/program.h"

/// Lowers operators without a fused kernel to loop nests. Elementwise operators and views become
/// expressions. A value is stored if more than one nest, a kernel or the caller reads it, or if its
/// expression is too large for one nest. Each family of operators has a file nest_*.cpp.
namespace llmc::plan {

/// Maximum number of nodes in the expression of one nest.
inline constexpr std::size_t kMaxExpressionNodes = 96;

/// True if T is one of `Ops`.
template <class T, class... Ops>
concept OneOf = (std::is_same_v<T, Ops> || ...);

/// Interface through which loop nests use the lowering of the graph. All dims are those of one row.
/// In a decoder, `seq` counts as 1 in them, because nests run once per token.
class NestHost {
 public:
  /// Returns the dims of one row of a value of this type; nullopt if they are unknown.
  virtual std::optional<Sizes> sizes(const ir::TensorType& type) const = 0;
  /// Returns whether nests run once per token, as in a decoder.
  virtual bool by_token() const = 0;
  /// Returns the elements of an integer value as sizes; nullopt if they are unknown. Known only in
  /// plain graphs with open dims.
  virtual std::optional<Sizes> elements(ir::ValueId value) const = 0;
  /// Returns the expression that loads a value that no nest computes: an input, an activation or a
  /// weight of a loop; nullptr for any other value.
  virtual ExpressionPtr outside(ir::ValueId value, const Sizes& dims) = 0;
  /// Returns the constant of a value, or nullptr if it is not constant.
  virtual ir::ConstantPtr constant(ir::ValueId value) const = 0;
  /// Returns a buffer for a constant that nests read, named after `value`.
  virtual std::uint32_t data(ir::ConstantPtr data, WeightUse use, ir::ValueId value) = 0;
  /// Returns a new buffer of `count` elements for `node`.
  virtual std::uint32_t scratch(const ir::Node& node, ir::ElementType element, const Size& count,
                                const std::string& name, std::string comment) = 0;
  /// Returns the caller's buffer if the value is an output.
  virtual std::optional<std::uint32_t> output(ir::ValueId value) const = 0;
  /// Returns the number of elements of a buffer; in a decoder, the number per row.
  virtual Size size(std::uint32_t buffer) const = 0;
  /// Returns the maximum number of workers for one nest.
  virtual std::int64_t workers() const = 0;
  /// Appends a stage that computes `node` to the program.
  virtual void emit(const ir::Node& node, Stage stage) = 0;

 protected:
  ~NestHost() = default;
};

/// The loop nests of one graph: a plain graph, a decoder or the body of its layer loop.
class NestLowerer {
 public:
  NestLowerer(const ir::Graph& graph, const ir::UseDef& uses, NestHost& host);

  /// Returns the dims of one row of a value; nullptr if NestHost::sizes() returns nullopt.
  const Sizes* dims_of(ir::ValueId value) const;
  /// Returns whether any result of the node is read for more than its shape.
  bool is_needed(const ir::Node& node) const;
  /// Lowers a node whose operands all have values. Fails with kUnsupported if it has no nest, in a
  /// decoder if it cannot be computed row by row, and in a plain graph like check_sizes(). Its
  /// results are then bound to storage that is never written, so that nodes that read them can
  /// still be checked.
  Status lower(const ir::Node& node);
  /// Checks that the operand sizes of a node in a plain graph match for all values of the open
  /// dims, which shape inference assumes (nest_sizes.cpp). Fails with kUnsupported if they do not.
  Status check_sizes(const ir::Node& node) const;
  /// Returns whether lower() has computed an expression for the value.
  bool has(ir::ValueId value) const;
  /// Returns whether computing the value reads `buffer`.
  bool reads(ir::ValueId value, std::uint32_t buffer) const;
  /// Stores a value that lower() computed in a row-major buffer that contains nothing else, unless
  /// it is in one. Returns the buffer.
  std::uint32_t store_whole(ir::ValueId value);
  /// Copies a value into the caller's memory, `buffer`, unless it is there already.
  void finish_output(ir::ValueId value, std::uint32_t buffer);

 private:
  // ---- operators (nest_*.cpp). Each function fails with kUnsupported if it cannot lower the node.
#define LLMC_LOWER_OP(T) lower(const ir::Node& node, const ir::T& op)
  Status LLMC_IR_OPS(LLMC_LOWER_OP);
#undef LLMC_LOWER_OP
  /// Checks that each row of the result depends only on the same row of the operands
  /// (nest_rows.cpp).
  Status check_rows(const ir::Node& node) const;
  /// Lowers a node whose result consists of known sizes, at least one of which depends on an open
  /// dim. Returns false for other nodes.
  bool lower_open_sizes(const ir::Node& node);
  Status lower_open_slice(const ir::Node& node);
  /// Returns the axis and step of each of the `count` starts of a Slice.
  Result<std::vector<std::pair<std::size_t, std::int64_t>>> slice_axes(const ir::Node& node,
                                                                       std::size_t count) const;

  // ---- values
  const Sizes& dims(ir::ValueId value) const { return *values_.at(value).dims; }
  ir::ElementType element(ir::ValueId value) const { return graph_.value(value).type.element; }
  const ExpressionPtr& expression(ir::ValueId value);  // created on first use for a constant
  /// Returns the value's expression, broadcast to `dims`.
  ExpressionPtr broadcast_to(ir::ValueId value, const Sizes& dims);
  void set(ir::ValueId value, ExpressionPtr expression);
  /// Returns the constant of a value, or nullptr if it is not constant.
  ir::ConstantPtr constant(ir::ValueId value) const { return host_.constant(value); }
  Result<std::vector<std::int64_t>> integers(const ir::Node& node, std::size_t operand) const;
  /// Returns the elements of an operand that are numbers or sizes; nullopt if they are not known.
  std::optional<Sizes> known_sizes(const ir::Node& node, std::size_t operand) const;
  bool has(const ir::Node& node, std::size_t operand) const {
    return operand < node.inputs.size() && node.inputs[operand].exists();
  }

  // ---- storage
  /// Returns a view of the value in memory, in the type in which it is computed (16-bit floats are
  /// widened). Stores the value if it is not a view yet, or if `dense` is set and the view is not
  /// row-major.
  View stored(ir::ValueId value, bool dense = true);
  /// Returns a view like stored() whose last dim is contiguous.
  View stored_with_adjacent(ir::ValueId value);
  /// Stores an expression that is not a value of the graph.
  View stored(const ExpressionPtr& expression, const Sizes& dims, ir::ElementType type,
              const std::string& comment);
  /// A row-major value in memory, in the type in which it is stored.
  struct Stored {
    View view;
    ir::ElementType type = ir::ElementType::kF32;
  };
  Stored stored_unwidened(ir::ValueId value);
  static BufferArgument read(const View& view) { return {view.buffer, view.offset, false}; }
  static BufferArgument written(const View& view) { return {view.buffer, view.offset, true}; }
  /// Returns the storage to which a kernel writes a value, and binds the value to it: the caller's
  /// memory if the value is an output with the same type, otherwise the arena.
  View result(ir::ValueId value);
  std::uint32_t scratch(ir::ElementType element, const Size& count, const std::string& name);
  /// Returns scratch memory of f32 for each worker, on separate cache lines.
  BufferArgument scratch_of_workers(const Size& elements, const std::string& name);
  void emit(const ir::Node& node, MapStage stage);
  void emit(const ir::Node& node, CallStage stage);

  // ---- shared by families
  /// Returns the call with its rows divided among workers. The call's first number is the number of
  /// rows. `steps` has the number of elements per row of each buffer.
  static CallStage by_rows(CallStage call, const Sizes& steps);
  Status lower_view(const ir::Node& node, const std::function<std::optional<View>(const View&)>& f);
  Status lower_reshaped(const ir::Node& node);
  /// Appends the stages that compute y = a @ b over views with leading batch dims. `y` is dense.
  Status product_of(const ir::Node& node, ir::ElementType type, View a, View b, View y,
                    ir::ConstantPtr b_data, bool b_transposed, ir::ValueId b_value);
  struct AxisSplit {
    Size outer = 1, size = 1, inner = 1;
  };
  static AxisSplit around(const Sizes& dims, std::size_t axis);
  /// Returns a call of gather() with the types and buffers of the data, the result and the indices;
  /// `split` divides the data at the axis, `count` is the number of indices.
  static CallStage gather_call(std::vector<ir::ElementType> types,
                               std::vector<BufferArgument> buffers, const AxisSplit& split,
                               const Size& count);
  /// Returns the fields of AxisSizes (llmc/function/reduce.h).
  static std::vector<CallStage::Number> numbers_of(const AxisSplit& split);
  /// Splits the dims of operand 0 at `axis`, which counts from the end if negative.
  AxisSplit split_at(const ir::Node& node, std::int64_t axis) const;
  /// Emits a kernel over an axis of operand 0. Each result has `count` elements along the axis.
  /// Sets the call's types, buffers and first three numbers.
  Status along_axis(const ir::Node& node, const AxisSplit& split, CallStage call,
                    const Size& count);
  /// Emits a normalization of the rows of operand 0: operand 1 is the scale, operand 2 the optional
  /// bias.
  Status norm_rows(const ir::Node& node, std::string_view kernel, float epsilon);

  Diagnostic unsupported(const ir::Node& node, std::string message) const;
  /// Returns a diagnostic for a node that is unsupported because of open dims; the hint suggests
  /// fixed sizes.
  Diagnostic needs_numbers(const ir::Node& node, std::string message) const;

  struct Lowered {
    std::optional<Sizes> dims;
    ExpressionPtr expression;
  };

  /// Finds for each value its sink, the stored value whose loop computes it. A stored value is its
  /// own sink.
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

/// Returns whether an operand only determines the shape of the result, which is known from the
/// result's type, or the bounds of a slice.
bool is_shape_operand(const ir::Node& node, std::size_t operand);

/// Returns n if the dim is n * seq with n > 0 (n consecutive elements per token), otherwise
/// nullopt.
std::optional<std::int64_t> per_token(const ir::Dim& dim);
/// Returns the dim of a type that counts tokens; nullopt if there is none.
std::optional<std::size_t> row_axis(const ir::TensorType& type);
/// Fails with kUnsupported if a Split in a decoder, or in its loops, divides the tokens of a call,
/// or those in the cache, into parts of fixed sizes.
Status check_splits(const ir::Graph& graph);

/// Returns the dims of one row of a value: n replaces n * seq. Returns nullopt if a dim is negative
/// or has another symbol, two dims count tokens, or there are more than 2^40 elements.
std::optional<Sizes> row_dims(const ir::TensorType& type);

/// Returns the type in which values of this type are computed and kept between stages: f32 for
/// 16-bit floats.
ir::ElementType computed_in(ir::ElementType element);

}  // namespace llmc::plan
