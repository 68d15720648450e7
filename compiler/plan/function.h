#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/function_expression.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// An arbitrary graph of fixed shapes as straight-line code: buffers with their places and a list
/// of stages that run once, in order (docs/functions.md).
namespace llmc::plan {

/// Floats between the calls of an expression never get larger loops than this many operations.
inline constexpr std::size_t kMaxExpressionNodes = 96;

enum class Place : std::uint8_t { kInput, kOutput, kWeights, kArena };

/// How a constant lies among the weights.
enum class WeightLayout : std::uint8_t {
  kRowMajor,
  kPanels,            // f32 or 16-bit matrix [K, N] as [N / 16][K][16], zeros past N
  kTransposedPanels,  // the same of a matrix that the model has as [N, K]
};

struct FunctionBuffer {
  Place place = Place::kArena;
  std::uint32_t slot = 0;  // kInput, kOutput: which
  ir::ElementType element = ir::ElementType::kF32;
  std::int64_t count = 0;    // elements
  std::string name;          // a C identifier; unique among those of its place
  std::string comment;       // dims and the model's name for it; untrusted text
  std::uint64_t offset = 0;  // kArena, kWeights: bytes from the start
  ir::ConstantPtr data;      // kWeights
  WeightLayout layout = WeightLayout::kRowMajor;
  /// Stages that write it first and use it last; first > last: none.
  std::uint32_t first_stage = UINT32_MAX, last_stage = 0;

  std::uint64_t bytes() const;
};

/// Elements of `target`, each the value of an expression over the same dims: one loop nest.
struct MapStage {
  View target;
  ExpressionPtr value;
};

struct BufferArgument {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;  // elements
  bool written = false;
};

/// A call of templates/llmc/function/: name<types…, tags…>(buffers…, numbers…).
struct KernelStage {
  using Number = std::variant<std::int64_t, float, bool, Sizes>;

  std::string_view kernel;
  std::vector<ir::ElementType> types;
  std::vector<std::string_view> tags;
  std::vector<BufferArgument> buffers;
  std::vector<Number> numbers;
  bool can_fail = false;  // returns false for data that makes no sense, such as a bad index
};

struct FunctionStage {
  std::variant<MapStage, KernelStage> work;
  std::string comment;  // operator, dims and the model's node; untrusted text
};

/// An input or output as the caller sees it.
struct FunctionPort {
  std::string name;  // as the model spells it; untrusted text
  ir::ElementType element = ir::ElementType::kF32;
  Sizes dims;
  std::uint32_t buffer = 0;

  std::uint64_t bytes() const;
};

struct FunctionProgram {
  std::vector<FunctionBuffer> buffers;
  std::vector<FunctionStage> stages;
  std::vector<FunctionPort> inputs, outputs;
};

struct FunctionOptions {
  const target::Target* target = nullptr;
  std::string name;  // a valid C identifier (emit/names.h)
  bool embed_weights = true;
};

struct FunctionPlan {
  FunctionOptions options;
  FunctionProgram program;
  std::uint64_t weights_bytes = 0, arena_bytes = 0;
  std::uint64_t code_bytes = 0;  // 0 until compiled
};

/// `inputs` are the graph's inputs as they were before passes, which drop those that nothing reads.
/// kUnsupported, all at once, for operators without a stage and for shapes that are not numbers.
Result<FunctionPlan> plan_function(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                                   const FunctionOptions& options);

/// Gives buffers of the arena their offsets so that those alive at the same time never overlap, and
/// constants theirs; returns the arena's bytes. (function_memory.cpp)
std::uint64_t place_arena(FunctionProgram& program);
std::uint64_t place_weights(FunctionProgram& program);

/// kOverBudget when the arena is larger than `max_ram` bytes (0: no limit).
Status check_budget(const FunctionPlan& plan, std::uint64_t max_ram);

/// Content of NAME.plan.json.
std::string to_json(const FunctionPlan& plan);

}  // namespace llmc::plan
