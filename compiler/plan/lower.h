#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/shape_value.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/plan/program.h"

/// Lowering of graphs. There is one Lowerer per graph, one Scope for the graph itself and one Scope
/// for each loop body. Operators with a kernel become kernel stages; all others become loop nests
/// (nest_lower.h).
namespace llmc::plan {

/// Returns a size in a graph as an unsigned number; 0 if it is negative.
inline std::uint64_t unsigned_of(std::int64_t value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

/// The representations of a value at run time.
struct NoBinding {};
struct NestBinding {};  // the scope's NestLowerer holds its expression
struct Activation {
  BufferId buffer;
  bool pinned = false;  // must not be overwritten, because it is read outside this scope
};
struct ConstantBinding {
  ir::ConstantPtr data;
  std::string name;
  ir::Origin origin{};  // origin of the node that produces the constant
};
struct ParameterBinding {
  std::int64_t index = 0;
};
struct TokensBinding {};      // llmc_run::tokens
struct PositionsBinding {};   // position of the token of each row
struct PositionAxesBinding {  // several positions of the token of each row, one per axis
  std::uint32_t count = 0;
};
struct LastPositionBinding {};  // position of the last token that the call appends
struct PastBinding {
  std::uint32_t layer = 0;  // inside a loop, relative to the first layer of the iteration
};
struct SourceBinding {
  std::uint32_t layer = 0;  // like PastBinding
};
struct PresentBinding {};  // the updated cache, which stages write in place
struct CachedBinding {};   // k or v, which the projection has written to the cache
struct StateBinding {      // a recurrent state before each token
  std::uint32_t slot = 0;  // in Program::states
};
struct InputBinding {  // an input of a plain graph
  std::uint32_t buffer = 0;
};
struct WindowsBinding {  // result of ir::Unfold that only linear layers read
  BufferId source;
  LinearStage::Windows windows;
};
using ValueBinding =
    std::variant<NoBinding, NestBinding, Activation, ConstantBinding, ParameterBinding,
                 TokensBinding, PositionsBinding, PositionAxesBinding, LastPositionBinding,
                 PastBinding, SourceBinding, PresentBinding, CachedBinding, StateBinding,
                 InputBinding, WindowsBinding>;

/// Returns the format of the value rows of a QKV matrix.
inline ir::WeightFormat value_format(const ir::QkvProjection& op) {
  return op.value_format == ir::WeightFormat::kUnset ? op.format : op.value_format;
}

/// Storage shape of a value: [tokens, width] if its type has the token dim, else one row.
struct Rows {
  std::uint64_t width = 0;
  bool one_row = false;
};
/// Returns nullopt if row_dims() does, or if a row has no elements.
std::optional<Rows> rows_of(const ir::TensorType& type);

class Lowerer {
 public:
  Lowerer(const ir::Graph& graph, const LowerOptions& options);
  Result<Program> run();

 private:
  struct Scope final : NestHost {
    Scope(Lowerer& l, const ir::Graph& g, LoopStage* body_of)
        : lowerer(l),
          graph(g),
          uses(g),
          bindings(g.values().size()),
          nests(g, uses, *this),
          loop(body_of) {}
    std::optional<Sizes> sizes(const ir::TensorType& type) const override;
    bool by_token() const override { return !lowerer.is_plain_; }
    std::optional<Sizes> elements(ir::ValueId value) const override;
    ExpressionPtr outside(ir::ValueId value, const Sizes& dims) override;
    ir::ConstantPtr constant(ir::ValueId value) const override;
    std::uint32_t data(ir::ConstantPtr data, WeightUse use, ir::ValueId value) override;
    std::uint32_t scratch(const ir::Node& node, ir::ElementType element, const Size& count,
                          const std::string& name, std::string comment) override;
    std::optional<std::uint32_t> output(ir::ValueId value) const override;
    Size size(std::uint32_t buffer) const override;
    std::int64_t workers() const override;
    void emit(const ir::Node& node, Stage stage) override;
    /// Returns the buffer of a weight read by loop nests.
    std::uint32_t weight_buffer(WeightRef weight, ir::ElementType element, std::uint64_t count);

    Lowerer& lowerer;
    const ir::Graph& graph;
    ir::UseDef uses;
    std::vector<ValueBinding> bindings;
    NestLowerer nests;
    std::set<std::uint32_t> failed;  // values that could not be lowered
    /// Values without a token dim that are computed from the call's last position. As each row may
    /// belong to another sequence, they are computed for every row.
    std::set<std::uint32_t> of_call;
    /// Keys and values that are stored in each layer's cache.
    std::map<std::uint32_t, std::pair<ir::ValueId, ir::ValueId>> cached;
    std::map<ir::ValueId, std::uint32_t> outputs;  // plain graph: buffer of an output, by value
    std::map<std::tuple<std::uint32_t, bool>, std::uint32_t> weight_buffers;
    std::map<std::size_t, WeightRef> data_fields;  // by parameter
    LoopStage* loop;                               // the loop whose body this is, or nullptr
    const ir::Loop* op = nullptr;                  // the operator of that loop
    /// Stages of the loop body; the outermost scope appends to the program instead.
    std::vector<Stage> stages;
    std::vector<std::vector<PackedWeight>> field_weights;  // [field][iteration]
    std::uint32_t node = 0;                                // the node being lowered
  };

  /// Lowers one node. Skips nodes that no output needs. Also skips a node, except for a loop, if
  /// one of its operands could not be lowered, because further errors would only be consequences.
  void lower_node(Scope& scope, const ir::Node& node);
  /// Lowers a node to kernel stages. Returns false if no kernel supports it. Reports errors through
  /// unsupported() and bad_input().
  bool lower_to_kernel(Scope& scope, const ir::Node& node);
  /// If the node's results belong to Scope::of_call, adds them to it and returns true.
  bool note_of_call(Scope& scope, const ir::Node& node);
  /// Lowers a node to loop nests.
  void lower_to_nests(Scope& scope, const ir::Node& node);
  // One function per operator. A function that returns bool returns false if loop nests must
  // compute the node.
  bool lower_embedding(Scope& scope, const ir::Node& node, const ir::Embedding& op);
  bool lower_lookup(Scope& scope, const ir::Node& node, const ir::Embedding& op);
  bool lower_unfold(Scope& scope, const ir::Node& node, const ir::Unfold& op);
  void lower_linear(Scope& scope, const ir::Node& node, const ir::Linear& op);
  void lower_experts(Scope& scope, const ir::Node& node, const ir::ExpertLinear& op);
  void lower_qkv(Scope& scope, const ir::Node& node, const ir::QkvProjection& op);
  void lower_attention(Scope& scope, const ir::Node& node, const ir::Attention& op);
  /// Converts an encoder's output `port`, the keys and values of a layer, to its stored form: the
  /// bytes of one layer of a source's state. Sets Program::source_rows.
  Port source_port(Port port);
  /// Adds the stages that store the keys and values that `node` computes, if any, in the outputs.
  void store_sources(Scope& scope, const ir::Node& node);
  void lower_cross_attention(Scope& scope, const ir::Node& node, const ir::CrossAttention& op);
  bool lower_norm(Scope& scope, const ir::Node& node, ir::NormKind kind, float epsilon);
  void lower_rope(Scope& scope, const ir::Node& node, const ir::Rope& op);
  bool lower_gated(Scope& scope, const ir::Node& node, const ir::GatedActivation& op);
  bool lower_binary(Scope& scope, const ir::Node& node, const ir::Binary& op);
  bool lower_power(Scope& scope, const ir::Node& node);
  bool add_to_norm(Scope& scope, const ir::Node& node);
  bool lower_unary(Scope& scope, const ir::Node& node, const ir::Unary& op);
  bool lower_view(Scope& scope, const ir::Node& node);
  bool lower_row_selection(Scope& scope, const ir::Node& node);
  void lower_loop(Scope& scope, const ir::Node& node, const ir::Loop& op);

  // Values.
  ValueBinding& binding(Scope& scope, ir::ValueId value) { return scope.bindings[value.index]; }
  const ValueBinding& input(Scope& scope, const ir::Node& node, std::size_t index);
  bool present(const ir::Node& node, std::size_t index) const;
  /// Returns the f32 buffer of a computed operand, after storing it if loop nests compute it;
  /// nullopt if the operand is absent, has another type or is not computed.
  std::optional<BufferId> activation(Scope& scope, const ir::Node& node, std::size_t index);
  /// Returns the buffer of a computed value of any element type.
  std::optional<BufferId> stored(Scope& scope, ir::ValueId value);
  /// Returns a stage that copies all rows of a buffer.
  decltype(Stage::op) copy_of(BufferId from, BufferId to) const;
  /// Returns whether an operand is computed by loop nests and not stored yet.
  bool is_pending(Scope& scope, const ir::Node& node, std::size_t index);
  BufferId new_buffer(const std::string& name, Rows rows);
  std::optional<BufferId> output_buffer(Scope& scope, const ir::Node& node,
                                        const std::string& name);
  /// Returns the buffer `x` of the operand if this is its last use, else output_buffer().
  std::optional<BufferId> in_place_or_new(Scope& scope, const ir::Node& node, std::size_t operand,
                                          BufferId x, const std::string& name);
  /// Returns whether the result of the current node may reuse the buffer of `value`: it is not
  /// pinned, and no later node reads it through `value` or another value.
  bool is_last_use(Scope& scope, ir::ValueId value);
  void bind(Scope& scope, ir::ValueId value, BufferId buffer, bool pinned = false);

  // Weights.
  struct WeightSpec {
    WeightUse use = WeightUse::kVector;
    ir::WeightFormat format = ir::WeightFormat::kUnset;
    std::int64_t hadamard = 0;  // as in ir::Linear
    RowOrder order = RowOrder::kPlain;
    bool pad_rows = false;
    AttentionShape shape{};  // kQkv
    std::string label{};
    std::uint64_t active_rows = 0;              // PackedWeight::active_rows
    std::int64_t first_row = 0, row_count = 0;  // a range of the matrix's rows; 0: all rows
  };
  std::optional<PackedWeight> packed(const ir::Node& node, const ConstantBinding& constant,
                                     const WeightSpec& spec);
  /// Adds operand `index` of the node to the weights. Returns an empty WeightRef if the operand is
  /// absent or, after reporting an error, if it is not a constant or cannot be packed.
  WeightRef weight(Scope& scope, const ir::Node& node, std::size_t index, WeightSpec spec);
  /// Returns the constants of operand `index`: one for each iteration of the loop if it is a
  /// parameter, otherwise one, or none if the operand is not a constant.
  std::vector<ir::ConstantPtr> constants_of(Scope& scope, const ir::Node& node, std::size_t index);
  /// Returns whether query and key rows are stored separately from the value rows of a QKV matrix:
  /// they have different formats, or their source quantizations have no common format.
  bool splits_values(Scope& scope, const ir::Node& node, const ir::QkvProjection& op,
                     std::int64_t query_key_rows, std::int64_t rows);
  WeightRef global_weight(PackedWeight weight);
  /// Adds a weight that is not a field of a loop, under a unique label. Returns the existing weight
  /// if it was added before. Returns an empty WeightRef after reporting an error.
  WeightRef labelled_weight(const ir::Node& node, const ConstantBinding& constant, WeightSpec spec);
  const ir::TensorType* weight_type(Scope& scope, const ir::Node& node, std::size_t index) const;
  std::string unique_label(Scope& scope, const std::string& label);
  /// A node's norm: the indices of its operands, and its attributes.
  struct NormOperands {
    std::size_t weight, bias;
    std::optional<float> epsilon;
    ir::NormKind kind = ir::NormKind::kRms;
  };
  NormInput norm_input(Scope& scope, const ir::Node& node, const NormOperands& norm,
                       const std::string& label, std::uint64_t width);
  /// Adds a vector operand with `width` elements. Returns an empty WeightRef, after reporting an
  /// error, if it is absent, not a constant or has another number of elements.
  WeightRef vector_weight(Scope& scope, const ir::Node& node, std::size_t index,
                          const std::string& label, std::uint64_t width);
  /// Limits the context (Program::positions_max) to `rows`, the rows of a position table.
  void limit_positions(std::uint64_t rows);
  /// Returns the number of rows of a position table that are stored (WeightSpec::row_count).
  std::int64_t position_rows(std::uint64_t rows) const;
  std::optional<Angles> angles(Scope& scope, const ir::Node& node, std::size_t positions,
                               std::size_t frequencies, const ir::Rope& op, std::uint64_t head_dim);

  void emit(Scope& scope, const ir::Node& node, decltype(Stage::op) op, std::string comment,
            bool head);
  bool in_head(BufferId buffer) const {
    return !is_plain_ && program_.buffers[buffer.index].one_row;
  }
  bool note_attention(Scope& scope, const ir::Node& node, const AttentionShape& shape,
                      std::uint32_t layer);
  void unsupported(const ir::Node& node, std::string message, std::string hint = {});
  void bad_input(const ir::Node& node, std::string message, std::string hint = {});
  void input_is_no_activation(const Scope& scope, const ir::Node& node);
  /// Returns the field of the loop's weight table for a parameter read by loop nests.
  WeightRef layer_data(Scope& scope, const ParameterBinding& parameter);
  std::string unique_global_label(const std::string& label);
  std::string unique_name(std::string_view wanted, std::string_view otherwise);
  // Open dims of a plain graph (lower_sizes.cpp).
  /// Records the ranges of the symbols in the input shapes, and the sizes of inferred symbols that
  /// follow from them.
  void note_open_dims();
  void note_quotients(const ir::Dim& dim);
  void note_inferred_symbols(const ir::Node& node);
  /// Returns the length of a slice along `axis`, which has `size` elements; nullopt if unknown.
  std::optional<Size> slice_length(const ir::Node& node, std::size_t axis, const Size& size) const;
  std::optional<Size> size_of(const ir::Dim& dim) const;
  /// Returns nullopt if a dim can be negative or has a symbol without a size, or if the tensor can
  /// have more than 2^40 elements.
  std::optional<Sizes> sizes_of(const ir::TensorType& type) const;
  Status check_plain_shapes() const;
  /// Returns whether the outputs are stored as the state of a source.
  bool stores_sources() const { return options_.entry == ir::EntryKind::kEncode; }
  // The beginning and the end of run().
  void bind_decoder_inputs(Scope& scope);
  Status finish_decoder(Scope& scope);
  bool split_head(BufferId logits);
  void bind_ports(Scope& scope);
  void finish_ports(Scope& scope);
  // Recurrent states of a decoder (lower_states.cpp).
  /// Returns the graph output with the new value of a state; kNoValue if there is none.
  ir::ValueId new_state(ir::ValueId input) const;
  void bind_state(Scope& scope, ir::ValueId input);
  /// Returns the nodes between a state's input and its output, and the other nodes that read
  /// states. They become loop nests, which can run for one row at a time and, unlike kernels, can
  /// read states.
  std::set<std::uint32_t> nodes_of_recurrences(const Scope& scope) const;
  /// Copies a nest's value from a buffer that kernels cannot read (a recurrent state) to scratch
  /// memory. Returns the copy.
  BufferId copied(Scope& scope, ir::ValueId value, BufferId from);
  /// Sets the buffers of the states' new values, and orders the stages.
  Status finish_states(Scope& scope);

  const ir::Graph& graph_;
  LowerOptions options_;
  Program program_;
  const bool is_plain_ = options_.entry != ir::EntryKind::kForward;
  std::vector<Diagnostic> diagnostics_;  // in graph order
  /// Number of diagnostics_ after the last loop body; these are root causes and are kept.
  std::size_t known_causes_ = 0;
  std::vector<Stage> prologue_;  // angle tables, before all other stages
  std::map<std::tuple<const ir::Constant*, int, int, int, bool>, std::uint32_t> global_weights_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::vector<std::uint8_t>>, BufferId>
      angle_buffers_;
  /// Slices of constants, cached so that equal slices share one object.
  std::map<std::tuple<const ir::Constant*, std::int64_t, std::int64_t>, ir::ConstantPtr> parts_;
  std::set<std::string> buffer_names_, global_labels_;
  std::uint32_t loops_ = 0, nest_buffers_ = 0;
  std::map<Place, std::uint32_t> row_buffers_;   // of kTokens, kPositions, kLastPositions
  std::map<std::string, int> names_, suffixes_;  // plain graphs: names in use
  std::map<std::string, Size> symbols_;          // plain graphs: sizes of the symbols in shapes
  std::vector<ir::ValueId> state_inputs_;        // by slot of Program::states
  std::set<std::uint32_t> recurrent_nodes_;
  ir::ShapeValues shape_values_;  // plain graphs with open dims
};

}  // namespace llmc::plan
