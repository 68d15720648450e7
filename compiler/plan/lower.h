#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/program.h"

/// Inside of lower(): one Lowerer per graph, one Scope for the graph itself and one per loop body.
namespace llmc::plan {

/// A size of a graph, 0 for what is none.
inline std::uint64_t unsigned_of(std::int64_t value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

/// What a value is at run time.
struct NoPlace {};
struct Activation {
  BufferId buffer;
  bool pinned = false;  // not to be overwritten: read again by someone outside this scope
};
struct ConstantPlace {
  ir::ConstantPtr data;
  std::string name;
  ir::Origin origin{};  // of the node that makes it
};
struct ParameterPlace {
  std::int64_t index = 0;
};
struct TokensPlace {};     // llmc_run::tokens
struct PositionsPlace {};  // of each row's token
struct PastPlace {
  std::uint32_t layer = 0;  // inside a loop: counted from the iteration's first
};
struct PresentPlace {};  // the cache, kept by the stages themselves
struct CachedPlace {};   // k or v that the projection has put into the cache
using ValuePlace = std::variant<NoPlace, Activation, ConstantPlace, ParameterPlace, TokensPlace,
                                PositionsPlace, PastPlace, PresentPlace, CachedPlace>;

/// The format of a qkv matrix's value rows.
inline ir::WeightFormat value_format(const ir::QkvProjection& op) {
  return op.value_format == ir::WeightFormat::kUnset ? op.format : op.value_format;
}

/// How a value's row-major bytes look as rows of tokens.
struct Rows {
  std::uint64_t width = 0;
  bool one_row = false;
};
/// nullopt when the bytes are not [tokens, width] or [1, width], or dims do not fit.
std::optional<Rows> rows_of(const ir::TensorType& type);

class Lowerer {
 public:
  Lowerer(const ir::Graph& graph, const LowerOptions& options);
  Result<Program> run();

 private:
  struct Scope {
    Scope(const ir::Graph& g, LoopStage* l)
        : graph(g), uses(g), places(g.values().size()), loop(l) {}
    const ir::Graph& graph;
    ir::UseDef uses;
    std::vector<ValuePlace> places;
    std::set<std::uint32_t> failed;  // values that could not be lowered
    LoopStage* loop;                 // whose body this is, or nullptr
    const ir::Loop* op = nullptr;    // the same, in the graph
    std::vector<Stage> stages;       // of the body; the outer scope writes to the program
    std::vector<std::vector<PackedWeight>> field_weights;  // [field][iteration]
    std::uint32_t node = 0;                                // being lowered
  };

  /// Lowers one node. An error of a node that reads a value without a place is a consequence: it is
  /// dropped, or listed after the causes if no stage exists for the operator at all. Errors of a
  /// loop's body are judged by the values that its own nodes read.
  void lower_node(Scope& scope, const ir::Node& node);
  // One per operator; report what they cannot do through unsupported().
  void lower_operator(Scope& scope, const ir::Node& node);
  void lower_embedding(Scope& scope, const ir::Node& node, const ir::Embedding& op);
  void lower_linear(Scope& scope, const ir::Node& node, const ir::Linear& op);
  void lower_qkv(Scope& scope, const ir::Node& node, const ir::QkvProjection& op);
  void lower_attention(Scope& scope, const ir::Node& node, const ir::Attention& op);
  void lower_norm(Scope& scope, const ir::Node& node, ir::NormKind kind, float epsilon);
  void lower_rope(Scope& scope, const ir::Node& node, const ir::Rope& op);
  void lower_gated(Scope& scope, const ir::Node& node, const ir::GatedActivation& op);
  void lower_binary(Scope& scope, const ir::Node& node, const ir::Binary& op);
  void lower_power(Scope& scope, const ir::Node& node);
  bool add_to_norm(Scope& scope, const ir::Node& node);
  void lower_unary(Scope& scope, const ir::Node& node, const ir::Unary& op);
  void lower_view(Scope& scope, const ir::Node& node);
  void lower_row_selection(Scope& scope, const ir::Node& node);
  void lower_loop(Scope& scope, const ir::Node& node, const ir::Loop& op);

  // Values.
  ValuePlace& place(Scope& scope, ir::ValueId value) { return scope.places[value.index]; }
  const ValuePlace& input(Scope& scope, const ir::Node& node, std::size_t index);
  bool present(const ir::Node& node, std::size_t index) const;
  std::optional<BufferId> activation(Scope& scope, const ir::Node& node, std::size_t index);
  BufferId new_buffer(const std::string& name, Rows rows);
  std::optional<BufferId> output_buffer(Scope& scope, const ir::Node& node,
                                        const std::string& name);
  /// The buffer of `value` when nothing reads it after the current node, so that the result may
  /// take its place.
  bool dies_here(Scope& scope, ir::ValueId value);
  void bind(Scope& scope, ir::ValueId value, BufferId buffer, bool pinned = false);

  // Weights.
  struct WeightSpec {
    WeightUse use = WeightUse::kVector;
    ir::WeightFormat format = ir::WeightFormat::kUnset;
    RowOrder order = RowOrder::kPlain;
    bool pad_rows = false;
    AttentionShape shape;  // kQkv
    std::string label;
    std::int64_t first_row = 0, row_count = 0;  // a part of the matrix; 0: all of it
  };
  std::optional<PackedWeight> packed(const ir::Node& node, const ConstantPlace& constant,
                                     const WeightSpec& spec);
  /// Adds operand `index` of the node to the weights; no WeightRef when it is absent or not one.
  WeightRef weight(Scope& scope, const ir::Node& node, std::size_t index, WeightSpec spec);
  /// The constants that operand `index` is, one for each iteration of the loop.
  std::vector<ir::ConstantPtr> constants_of(Scope& scope, const ir::Node& node, std::size_t index);
  /// Whether query and key rows and value rows of a qkv matrix are stored apart: they have formats
  /// of their own, or arrive quantized in ways that have no common format.
  bool splits_values(Scope& scope, const ir::Node& node, const ir::QkvProjection& op,
                     std::int64_t query_key_rows, std::int64_t rows);
  WeightRef global_weight(PackedWeight weight);
  const ir::TensorType* weight_type(Scope& scope, const ir::Node& node, std::size_t index) const;
  std::string unique_label(Scope& scope, std::string label);
  /// Operands of a node's norm: those with these indices.
  struct NormOperands {
    std::size_t weight, bias;
    std::optional<float> epsilon;
    ir::NormKind kind = ir::NormKind::kRms;
  };
  NormInput norm_input(Scope& scope, const ir::Node& node, const NormOperands& norm,
                       const std::string& label, std::uint64_t width);
  /// A vector operand with that many elements; no WeightRef when it is absent or not one.
  WeightRef vector_weight(Scope& scope, const ir::Node& node, std::size_t index,
                          const std::string& label, std::uint64_t width);
  /// What `ctx` must not pass: the rows of a table that positions look up.
  void limit_positions(std::uint64_t rows);
  /// How many of a position table's rows are stored: WeightSpec::row_count.
  std::int64_t position_rows(std::uint64_t rows) const;
  std::optional<Angles> angles(Scope& scope, const ir::Node& node, std::size_t positions,
                               std::size_t frequencies, const ir::Rope& op, std::uint64_t head_dim);

  void emit(Scope& scope, const ir::Node& node, decltype(Stage::op) op, std::string comment,
            bool head);
  bool in_head(BufferId buffer) const { return program_.buffers[buffer.index].one_row; }
  bool note_attention(Scope& scope, const ir::Node& node, const AttentionShape& shape,
                      std::uint32_t layer);
  void unsupported(const ir::Node& node, std::string message, std::string hint = {});
  void bad_input(const ir::Node& node, std::string message, std::string hint = {});
  bool finish(Scope& scope);
  bool split_head(BufferId logits);

  const ir::Graph& graph_;
  LowerOptions options_;
  Program program_;
  std::vector<Diagnostic> diagnostics_;   // causes, in the order of the graph
  std::vector<Diagnostic> consequences_;  // operators without a stage after the first cause
  std::size_t known_causes_ = 0;          // diagnostics_ of loop bodies are causes up to here
  std::vector<Stage> prologue_;           // angle tables, before everything else
  std::map<std::tuple<const ir::Constant*, int, int, int, bool>, std::uint32_t> global_weights_;
  std::map<std::tuple<std::uint32_t, std::uint64_t>, BufferId> angle_buffers_;
  /// Parts of constants, so that the same part is the same object.
  std::map<std::tuple<const ir::Constant*, std::int64_t, std::int64_t>, ir::ConstantPtr> parts_;
  std::set<std::string> buffer_names_, global_labels_;
  std::uint32_t loops_ = 0;
};

}  // namespace llmc::plan
