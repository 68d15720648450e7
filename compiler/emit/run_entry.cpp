#include "compiler/emit/run_entry.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/emit/descriptor.h"
#include "compiler/emit/offsets.h"
#include "compiler/emit/stage_calls.h"

namespace llmc::emit {
namespace {

using plan::Plan;

/// Returns the local variables with the sizes of the open dims.
std::string dim_variables(const Plan& plan, const DimNames& dims) {
  const auto& open = plan.program.open_dims;
  if (open.empty()) return {};
  std::string text =
      "  const int64_t* const dims = options == nullptr ? nullptr : options->dims;\n";
  for (std::size_t i = 0; i < open.size(); ++i)
    text += fmt::format(
        "  const int64_t {0} = dims == nullptr ? {2} : dims[{3}];\n"
        "  if ({0} < {1} || {0} > {2}) return kBadOptions;\n",
        DimNames::variable(dims.identifiers()[i]), open[i]->range.min, open[i]->range.max, i);
  return text + dims.quotient_lines();
}

std::string run_function(const Plan& plan, const DimNames& dims, std::uint64_t weights_hash,
                         const std::string& stages) {
  const std::string& name = plan.options.name;
  const std::size_t inputs = plan.program.inputs.size() + (has_weights_input(plan) ? 1 : 0);
  std::string text = fmt::format(
      "\nextern \"C\" int {}_run_with(const void* const* inputs, void* const* outputs, void* "
      "arena, const llmc_run_options* options) {{\n"
      "  if (!all_there(inputs, {}) || !all_there(outputs, {})) return kMissingPointer;\n"
      "  if (arena == nullptr || reinterpret_cast<uintptr_t>(arena) % 64 != 0) return "
      "kMissingPointer;\n",
      name, inputs, plan.program.outputs.size());
  const std::string weights =
      plan.weights_bytes == 0 ? "nullptr"
      : plan.program.is_encoder()
          ? fmt::format("static_cast<const unsigned char*>(inputs[{}])", plan.program.inputs.size())
      : plan.options.embed_weights
          ? name + "_weights"
          : fmt::format("weights_in(inputs[{}], {}, 0x{:016x}u)", plan.program.inputs.size(),
                        plan.weights_bytes, weights_hash);
  text += fmt::format(
      "  GraphCall m{{inputs, outputs, {{}}, static_cast<unsigned char*>(arena) + kWork}};\n"
      "  m.run.scratch = static_cast<unsigned char*>(arena);\n"
      "  m.run.weights = {};\n"
      "  if (!set_workers(m.run, options, {{.threads_max = {}, .even_cores = {}}})) "
      "return kBadOptions;\n",
      weights, plan.options.threads_max, !plan.options.target->uneven_cores);
  if (has_weights_input(plan)) text += "  if (m.run.weights == nullptr) return kOtherWeights;\n";
  text += dim_variables(plan, dims) + stages + "  return kDone;\n}\n";
  return text +
         fmt::format(
             "\nextern \"C\" int {0}_run(const void* const* inputs, void* const* outputs, void* "
             "arena) {{\n  return {0}_run_with(inputs, outputs, arena, nullptr);\n}}\n",
             name);
}

/// Maximum number of stages in one C++ function: clang's compile time grows quadratically with the
/// number of calls in a function.
constexpr std::size_t kStagesOfPart = 256;

/// Functions of at most kStagesOfPart stages each, and the calls of these functions.
struct StageParts {
  std::string functions, calls;
};

StageParts in_parts(const std::vector<std::string>& stages, const DimNames& dims) {
  StageParts parts;
  std::string parameters, arguments;
  for (const std::string& identifier : dims.identifiers()) {
    parameters += ", [[maybe_unused]] int64_t " + DimNames::variable(identifier);
    arguments += ", " + DimNames::variable(identifier);
  }
  for (std::size_t begin = 0; begin < stages.size(); begin += kStagesOfPart) {
    const std::size_t end = std::min(begin + kStagesOfPart, stages.size());
    const std::string name = fmt::format("part_{}", begin / kStagesOfPart);
    parts.functions += fmt::format(
        "\n// Stages {} to {}.\n"
        "[[gnu::noinline]] Status {}([[maybe_unused]] const GraphCall& m{}) {{\n",
        begin, end - 1, name, parameters);
    for (std::size_t i = begin; i < end; ++i) parts.functions += stages[i];
    parts.functions += "  return kDone;\n}\n";
    parts.calls += fmt::format(
        "  if (const Status status = {}(m{}); status != kDone) return status;\n", name, arguments);
  }
  return parts;
}

}  // namespace

bool has_weights_input(const Plan& plan) {
  return plan.weights_bytes > 0 && (!plan.options.embed_weights || plan.program.is_encoder());
}

std::string run_includes(std::span<const Plan* const> plans) {
  const auto has_kernels = [](const Plan* plan) {
    return std::ranges::any_of(plan->program.forward, [](const plan::Stage& stage) {
      return !std::holds_alternative<plan::MapStage>(stage.op) &&
             !std::holds_alternative<plan::CallStage>(stage.op);
    });
  };
  std::string text = "#include \"llmc/cpu.h\"\n#include \"llmc/graph_call.h\"\n";
  if (std::ranges::any_of(plans, has_kernels)) text += "#include \"llmc/kernels.h\"\n";
  return text;
}

std::string run_entry(const Plan& plan, std::uint64_t weights_hash, bool stage_marks) {
  const std::string& name = plan.options.name;
  LoopNests loops(plan.program);
  const FunctionContext context{plan, nullptr, loops};
  std::vector<std::string> stages;
  for (const plan::Stage& stage : plan.program.forward) {
    stages.push_back("\n" + stage_call(context, stage));
    if (stage_marks) stages.back() += fmt::format("  finished({}u);\n", stages.size() - 1);
  }
  // A few stages are written as one function, which is easier to read.
  StageParts parts;
  if (stages.size() > kStagesOfPart)
    parts = in_parts(stages, loops.dims());
  else
    for (const std::string& stage : stages) parts.calls += stage;

  std::string text =
      fmt::format("\nnamespace llmc {{\nnamespace {}_function {{\nnamespace {{\n", name);
  if (plan.program.entry == ir::EntryKind::kEncode) text += "\n" + source_alias(plan, 0);
  text += weight_offsets(plan.program) + buffer_offsets(plan);
  text += loops.text() + parts.functions;
  text += "\n}  // namespace\n" + run_function(plan, loops.dims(), weights_hash, parts.calls);
  text += fmt::format("\n}}  // namespace {}_function\n}}  // namespace llmc\n", name);
  text += fmt::format("\nextern \"C\" int {}_supported(void) {{\n  return llmc::{}();\n}}\n", name,
                      plan.options.target->cpu_check);
  return text;
}

}  // namespace llmc::emit
