#include "compiler/emit/plain_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/emit/commented_lines.h"
#include "compiler/emit/descriptor.h"
#include "compiler/emit/names.h"
#include "compiler/emit/source.h"
#include "compiler/emit/stage_calls.h"
#include "compiler/emit/wrap.h"
#include "compiler/support/check.h"
#include "llmc/model.h"

namespace llmc::emit {
namespace {

using plan::Buffer;
using plan::Place;
using plan::Plan;

std::string constant_offsets(const Plan& plan) {
  CommentedLines lines;
  for (const plan::PackedWeight& weight : plan.program.weights) {
    const bool packed =
        weight.use == plan::WeightUse::kMatrix || weight.use == plan::WeightUse::kTable;
    lines.add_offset(weight.label, weight.offset,
                     packed ? weight_comment(weight) : comment_text(weight.comment));
  }
  return lines.text();
}

std::string arena_offsets(const Plan& plan) {
  CommentedLines lines;
  for (std::size_t i = 0; i < plan.program.buffers.size(); ++i) {
    const Buffer& buffer = plan.program.buffers[i];
    const plan::BufferPlace& place = plan.memory.buffers[i];
    const bool empty = buffer.place == Place::kArena && buffer.width == 0;
    if (place.bytes != 0 || empty)
      lines.add_offset(buffer.name, place.offset, comment_text(buffer.comment));
  }
  return lines.text();
}

/// Returns a C string literal for arbitrary bytes.
std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\' && c != '?';
    out += plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
  }
  return out + "\"";
}

/// Returns the macros of one input or output.
std::string port_macros(const std::string& macro, std::string_view what, std::size_t index,
                        const plan::Port& port, const DimNames& dims,
                        std::map<std::string, int>& taken) {
  const std::string prefix = fmt::format("{}_{}_{}", macro, what, index);
  std::vector<std::string> sizes;
  for (const plan::Size& size : port.dims) sizes.push_back(dims.plain_text(size));
  std::string text =
      fmt::format("\n/* {} {}: {} {}[{}]{} */\n", what == "INPUT" ? "input" : "output", index,
                  comment_text(port.name), ir::to_string(port.element), fmt::join(sizes, ", "),
                  plan::all_constant(port.dims) ? "" : "; _DIMS and _BYTES: at most");
  std::string word;
  for (const char c : port.name.substr(0, 48)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    word += letter ? static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c) : '_';
  }
  const bool starts_well = !word.empty() && (word[0] >= 'A' && word[0] <= 'Z');
  if (starts_well) {
    const std::string stem = fmt::format("{}_{}_{}", macro, what, word);
    std::string by_name = stem;
    // `taken` stores the next suffix of each name, so that many ports with the same name need few
    // steps each.
    while (!taken.emplace(by_name, 2).second) by_name = fmt::format("{}_{}", stem, taken[stem]++);
    text += fmt::format("#define {} {}\n", by_name, index);
  }
  text += fmt::format("#define {}_NAME {}\n", prefix, c_string(port.name));
  text += fmt::format("#define {}_TYPE \"{}\"\n", prefix, ir::to_string(port.element));
  text += fmt::format("#define {}_RANK {}\n", prefix, port.dims.size());
  if (!port.dims.empty())
    text +=
        fmt::format("#define {}_DIMS {{{}}}\n", prefix, fmt::join(plan::bounds(port.dims), ", "));
  return text + fmt::format("#define {}_BYTES {}\n", prefix, port.bytes());
}

/// Returns the macros of the open dims that a call sets; empty if there are none.
std::string dim_macros(const plan::Program& program, const DimNames& dims, const std::string& macro,
                       std::string_view where) {
  const auto& open = program.open_dims;
  if (open.empty()) return {};
  std::string text = fmt::format(
      "\n/* Sizes that a call gives{}, in this order. */\n"
      "#define {}_DIMS {}\n",
      where, macro, open.size());
  for (std::size_t i = 0; i < open.size(); ++i)
    text += fmt::format(
        "#define {0}_DIM_{1} {2}\n"
        "#define {0}_DIM_{2}_NAME {3}\n"
        "#define {0}_DIM_{2}_MIN {4}\n"
        "#define {0}_DIM_{2}_MAX {5}\n",
        macro, macro_name(dims.identifiers()[i]), i, c_string(open[i]->name), open[i]->range.min,
        open[i]->range.max);
  return text;
}

/// Returns the macros of all inputs. `taken`: names of macros in use.
std::string all_input_macros(const plan::Program& program, const DimNames& dims,
                             const std::string& macro, std::map<std::string, int> taken = {}) {
  std::string text;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    text += port_macros(macro, "INPUT", i, program.inputs[i], dims, taken);
  return text;
}

bool has_weights_input(const Plan& plan) {
  return plan.weights_bytes > 0 && (!plan.options.embed_weights || plan.options.raw_weights);
}

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
      : plan.options.raw_weights
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

std::string function_includes(std::span<const Plan* const> plans) {
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

std::string function_body(const Plan& plan, std::uint64_t weights_hash) {
  const std::string& name = plan.options.name;
  LoopNests loops(plan.program);
  const FunctionContext context{plan, nullptr, loops};
  std::vector<std::string> stages;
  for (const plan::Stage& stage : plan.program.forward)
    stages.push_back("\n" + stage_call(context, stage));
  // A few stages are written as one function, which is easier to read.
  StageParts parts;
  if (stages.size() > kStagesOfPart)
    parts = in_parts(stages, loops.dims());
  else
    for (const std::string& stage : stages) parts.calls += stage;

  std::string text = weights_declaration(plan);
  text += fmt::format(
      "\nnamespace llmc {{\nnamespace {}_function {{\nnamespace {{\n\n"
      "constexpr uint64_t kWork = {};  // where scratch of kernels starts, in bytes\n",
      name, plan.memory.work_offset);
  if (plan.options.is_encoder) text += source_alias(plan, 0);
  if (const std::string places = constant_offsets(plan); !places.empty())
    text += "\n// Where each constant starts, in bytes.\n" + places;
  if (const std::string places = arena_offsets(plan); !places.empty())
    text +=
        "\n// Where each value lies in the arena, in bytes. Values with disjoint lifetimes share "
        "memory.\n" +
        places;
  text += loops.text() + parts.functions;
  text += "\n}  // namespace\n" + run_function(plan, loops.dims(), weights_hash, parts.calls);
  text += fmt::format("\n}}  // namespace {}_function\n}}  // namespace llmc\n", name);
  text += fmt::format("\nextern \"C\" int {}_supported(void) {{\n  return llmc::{}();\n}}\n", name,
                      plan.options.target->cpu_check);
  return wrapped(text);
}

std::string function_table(std::span<const RunnerFunction> functions) {
  std::string text =
      "\n#include <stdint.h>\n\nextern \"C\" {\n"
      "using LlmcRunnerFunction = int (*)(const void* const*, void* const*, void*, const "
      "int64_t*);\n"
      "extern const LlmcRunnerFunction llmc_runner_functions[];\n"
      "extern const unsigned llmc_runner_function_count;\n";
  for (const RunnerFunction& function : functions)
    if (function.has_options)
      text +=
          fmt::format("int {}(const void* const*, void* const*, void*, const llmc_run_options*);\n",
                      function.name);
  text += "const LlmcRunnerFunction llmc_runner_functions[] = {";
  for (const RunnerFunction& function : functions)
    text += fmt::format(
        "\n    [](const void* const* inputs, void* const* outputs, void* arena,\n"
        "       [[maybe_unused]] const int64_t* dims) {{\n      {}\n    }},",
        function.has_options
            ? fmt::format("const llmc_run_options options{{sizeof options, 0, 0, nullptr, nullptr, "
                          "dims}};\n      return {}(inputs, outputs, arena, &options);",
                          function.name)
            : fmt::format("return {}(inputs, outputs, arena);", function.name));
  text += fmt::format("\n    nullptr}};\nconst unsigned llmc_runner_function_count = {};\n}}\n",
                      functions.size());
  return text;
}

std::string function_source(const Plan& plan, std::uint64_t weights_hash) {
  return fmt::format(
             "// {} for {}, written by llmc {}: {} stages, {} bytes of arena.\n"
             "// build.sh beside this file rebuilds the library.\n\n"
             "#include \"{}.h\"\n{}",
             plan.options.name, target::described(*plan.options.target), kCompilerVersion,
             plan.program.forward.size(), plan.arena_bytes, plan.options.name,
             function_includes({{&plan}})) +
         function_body(plan, weights_hash);
}

std::string input_macros(const plan::Program& program, const std::string& prefix) {
  const DimNames dims(program);
  return fmt::format("#define {}_INPUTS {}\n", prefix, program.inputs.size()) +
         dim_macros(program, dims, prefix, "") + all_input_macros(program, dims, prefix);
}

std::string function_header(const Plan& plan) {
  const std::string& name = plan.options.name;
  const std::string macro = macro_name(name);
  std::string text = header_begin(plan, "a graph", "llmc/run.h");
  text += fmt::format(
      "/* Bytes of the arena, aligned to 64. Nothing in it survives a call. */\n"
      "#define {0}_ARENA_BYTES {1}\n"
      "#define {0}_THREADS_MAX {2}\n"
      "#define {0}_INPUTS {3}\n"
      "#define {0}_OUTPUTS {4}\n",
      macro, plan.arena_bytes, plan.options.threads_max, plan.program.inputs.size(),
      plan.program.outputs.size());
  const DimNames dims(plan.program);
  text += dim_macros(plan.program, dims, macro, ": llmc_run_options::dims");
  text += all_input_macros(plan.program, dims, macro, {{macro + "_INPUT_WEIGHTS", 2}});
  std::map<std::string, int> taken;
  for (std::size_t i = 0; i < plan.program.outputs.size(); ++i)
    text += port_macros(macro, "OUTPUT", i, plan.program.outputs[i], dims, taken);
  if (has_weights_input(plan))
    text += fmt::format(
        "\n/* After the inputs one more: the content of {0}.weights.bin, aligned to 64. */\n"
        "#define {1}_INPUT_WEIGHTS {2}\n#define {1}_WEIGHTS_BYTES {3}\n",
        name, macro, plan.program.inputs.size(), plan.weights_bytes + sizeof(llmc_weights_header));
  text += fmt::format(
      "\n/* Computes the outputs. Tensors are row-major without padding, aligned to their "
      "elements;\n"
      "   f16 and bf16 are 16-bit patterns, a bool is a byte, 0 or 1. Outputs overlap nothing "
      "else.\n"
      "   Returns 0; 1 when a pointer is NULL or the arena not aligned; 2 when an index in the "
      "data\n"
      "   is outside its tensor: the outputs are undefined then; 4 when the weights are\n"
      "   another model's. No allocation, no state: calls with different arenas and outputs may "
      "run\n"
      "   at the same time. */\n"
      "int {0}_run(const void* const* inputs, void* const* outputs, void* arena);\n\n"
      "/* The same on several threads; the bits do not depend on their number. `options` may be\n"
      "   NULL. Returns 3 for options that are not valid. */\n"
      "int {0}_run_with(const void* const* inputs, void* const* outputs, void* arena, const "
      "llmc_run_options* options);\n\n"
      "/* Whether this processor has the instructions the code was compiled for. */\n"
      "int {0}_supported(void);\n\n{1}",
      name, kHeaderEnd);
  return wrapped(text);
}

}  // namespace llmc::emit
