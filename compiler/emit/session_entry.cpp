#include "compiler/emit/session_entry.h"

#include <fmt/format.h>

#include <optional>

#include "compiler/emit/commented_lines.h"
#include "compiler/emit/descriptor.h"
#include "compiler/emit/device_program.h"
#include "compiler/emit/kernel_names.h"
#include "compiler/emit/media_encoder.h"
#include "compiler/emit/names.h"
#include "compiler/emit/offsets.h"
#include "compiler/emit/run_entry.h"
#include "compiler/emit/stage_calls.h"
#include "compiler/emit/stage_marks.h"
#include "compiler/emit/steps.h"
#include "compiler/plan/parts.h"

namespace llmc::emit {
namespace {

using plan::Plan;

std::string model_constants(const Plan& plan) {
  CommentedLines lines;
  const plan::Program& program = plan.program;
  const auto count = [&](const char* name, std::uint64_t value, const char* comment) {
    lines.add(fmt::format("constexpr uint32_t {} = {};", name, value), comment);
  };
  count("kLayers", program.layers, "");
  count("kHidden", program.hidden_width, "width of rows between layers");
  if (const std::uint64_t ffn = RowWidths(program).ffn(); ffn != 0)
    count("kFfn", ffn, "width of feed-forward rows");
  count("kVocab", program.vocabulary, "");
  count("kHeads", program.attention.heads, "");
  count("kKvHeads", program.attention.kv_heads, "");
  count("kHeadDim", program.attention.head_dim, "");
  count("kChunk", plan.options.chunk, "tokens of a forward pass");
  count("kBlock", plan.options.block, "tokens of a cache block");
  count("kBatch", plan.options.batch, "sequences of a forward pass");
  if (plan.partition) count("kInFlight", plan.in_flight(), "chunks of a prompt in flight");
  lines.add(fmt::format("constexpr KvFormats kCache = {{KvFormat::{}, KvFormat::{}}};",
                        plan::kv_enumerator(plan.options.kv.keys),
                        plan::kv_enumerator(plan.options.kv.values)),
            "of keys and values");
  if (program.layers == 0) return lines.text();
  return lines.text() +
         "using Attention = AttentionShape<kHeads, kKvHeads, kHeadDim, kBlock, kLayers, "
         "kCache>;\n" +
         (plan.encoder ? source_alias(*plan.encoder, program.cross.heads) : std::string());
}

/// Returns the calls of the stages in a segment of a list. `all`: the part to which all stages
/// belong; nullopt: parts_of() determines the part of each stage.
std::string body(const FunctionContext& context, const std::vector<plan::Stage>& stages,
                 const plan::Segment& segment, std::optional<Part> all = std::nullopt) {
  const auto at = [&](std::size_t i) { return stages.begin() + static_cast<std::ptrdiff_t>(i); };
  std::string text = local_buffers(context, {at(segment.begin), at(segment.end)});
  const std::vector<Part> parts = plan::parts_of(stages);
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    const std::string tag = part_tag(all.value_or(parts[i]));
    if (stages[i].recurrence == 0) {
      text += "\n" + stage_call(context, stages[i], tag);
      continue;
    }
    const std::size_t begin = i;
    while (i + 1 < segment.end && stages[i + 1].recurrence == stages[begin].recurrence) ++i;
    text += "\n" + recurrence_call(context, {stages.data() + begin, stages.data() + i + 1}, tag);
  }
  return text;
}

std::string body(const FunctionContext& context, const std::vector<plan::Stage>& stages,
                 std::optional<Part> all = std::nullopt) {
  return body(context, stages, {0, stages.size()}, all);
}

/// Returns the functions of a partitioned forward pass.
std::string partitioned_forward(const Plan& plan, LoopNests& nests) {
  std::string text;
  const std::vector<plan::Stage>& stages = plan.program.forward;
  std::size_t part = 0;
  for (const plan::Segment& segment : plan::segments_of(stages)) {
    const auto* loop = std::get_if<plan::LoopStage>(&stages[segment.begin].op);
    if (loop == nullptr) {
      text += fmt::format("\n{}void {}(const KernelContext& context) {{\n{}}}\n",
                          segment_comment(plan, segment), segment_name("forward", part++),
                          body({plan, nullptr, nests}, stages, segment));
      continue;
    }
    const std::vector<plan::Segment> inner = plan::segments_of(loop->body);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const std::string begin = "void " + segment_name(loop->function, i);
      text += fmt::format(
          "\n{}{}(const KernelContext& context, const {}& w,\n"
          "{:{}}[[maybe_unused]] uint32_t layer_index) {{\n{}}}\n",
          segment_comment(plan, inner[i]), begin, type_name(loop->function + "_weights"), "",
          begin.size() + 1, body({plan, loop, nests}, loop->body, inner[i]));
    }
  }
  return text + step_functions(plan) + device_program(plan);
}

/// Returns the functions of a forward pass that the CPU computes.
std::string whole_forward(const Plan& plan, LoopNests& nests) {
  std::string text;
  for (const plan::Stage& stage : plan.program.forward) {
    const auto* loop = std::get_if<plan::LoopStage>(&stage.op);
    if (!loop) continue;
    const std::string type = type_name(loop->function + "_weights");
    const std::uint32_t last = loop->first_layer + loop->count * loop->layers_per_pass - 1;
    text += fmt::format(
        "\n/// Computes {}, {} per call.\n"
        "void {}(const KernelContext& context, const {}& w, uint32_t layer_index) {{\n{}}}\n",
        last == loop->first_layer ? fmt::format("layer {}", last)
                                  : fmt::format("layers {} to {}", loop->first_layer, last),
        loop->layers_per_pass == 1 ? "one" : std::to_string(loop->layers_per_pass), loop->function,
        type, body({plan, loop, nests}, loop->body));
  }
  text += "\n/// Runs the layers on a chunk of tokens. Their final rows stay in `" +
          plan.program.buffers[plan.program.hidden.index].name + "`.\n";
  text += fmt::format(
      "void forward(const llmc_run* run) {{\n"
      "  const KernelContext context{{run, run->count, run->scratch + kWork}};\n{}}}\n",
      body({plan, nullptr, nests}, plan.program.forward));
  return text;
}

/// Returns the function `choose`; empty if the program has none. It runs the stages of `head`,
/// except that the last one stores only the greatest logit.
std::string choose_function(const Plan& plan, LoopNests& nests) {
  const plan::LinearStage* const last = plan::greedy_choice_product(plan.program);
  if (last == nullptr) return {};
  std::vector<plan::Stage> stages = plan.program.head;
  std::get<plan::LinearStage>(stages.back().op).epilogue = plan::LinearStage::Epilogue::kChoose;
  return fmt::format(
      "\n/// Returns the index of the largest logit of a final row, and computes as few others as "
      "possible.\n"
      "uint32_t choose(const llmc_run* run, const float* {row}, float* room, float* logit,\n"
      "                uint32_t* computed) {{\n"
      "  const KernelContext context{{run, 1, run->scratch + kWork}};\n"
      "  Choice choice;\n{body}\n"
      "  *logit = choice.logit;\n"
      "  *computed = choice.panels * static_cast<uint32_t>(kPanelRows);\n"
      "  return choice.index;\n"
      "}}\n",
      fmt::arg("row", plan.program.buffers[plan.program.row.index].name),
      fmt::arg("body", body({plan, nullptr, nests}, stages, Part::kHead)));
}

std::string functions(const Plan& plan) {
  LoopNests nests(plan.program);
  std::string text = plan.partition ? partitioned_forward(plan, nests) : whole_forward(plan, nests);
  if (!plan.options.shard.is_last()) return nests.text() + text;
  text += fmt::format(
      "\n/// Computes the logits of `count` final rows, and the index of the largest of each row.\n"
      "void head(const llmc_run* run, const float* {row}, uint32_t count, float* {logits},\n"
      "          uint32_t* best) {{\n"
      "  const KernelContext context{{run, count, run->scratch + kWork}};\n{body}\n"
      "  for (uint64_t i = 0; i < count; ++i) best[i] = argmax<kVocab>({logits} + i * kVocab);\n"
      "}}\n",
      fmt::arg("row", plan.program.buffers[plan.program.row.index].name),
      fmt::arg("body", body({plan, nullptr, nests}, plan.program.head, Part::kHead)),
      fmt::arg("logits", plan.program.buffers[plan.program.logits.index].name));
  return nests.text() + text + choose_function(plan, nests);
}

/// Returns the declaration of the compiled-in prompt's data; empty if there is no prompt.
std::string prompt_declaration(const Plan& plan) {
  if (plan.prompt.tokens == 0) return {};
  return fmt::format(
      "\n// The cache after the prompt that was compiled in, and the last layer's row of its last "
      "token.\n"
      "struct {0}_prompt_data {{\n"
      "  unsigned char blocks[{1}];\n"
      "  float row[{2}];\n"
      "}};\n"
      "extern \"C\" __attribute__((visibility(\"hidden\")))\n"
      "const {0}_prompt_data {0}_prompt;\n",
      plan.options.name, plan.prompt.blocks_bytes, plan.program.hidden_width);
}

}  // namespace

std::string session_includes(const Plan& plan) {
  const plan::Program& program = plan.program;
  std::string text = "#include \"llmc/arena.h\"\n#include \"llmc/cpu.h\"\n";
  const auto add = [&](bool needed, const char* header) {
    if (needed) text += fmt::format("#include \"llmc/{}\"\n", header);
  };
  add(plan.partition.has_value(), "device_op.h");
  add(true, "emitted.h");
  add(plan::has_nests(program.forward) || plan::has_nests(program.head), "function.h");
  add(plan.function() != nullptr, "graph_call.h");
  add(true, "kernels.h");
  add(!program.states.empty(), "kernels/state.h");
  add(true, "model.h");
  return text;
}

std::string session_entry(const Plan& plan, std::uint64_t weights_hash) {
  std::string text = prompt_declaration(plan);
  if (const Plan* const function = plan.function()) text += run_entry(*function, 0);
  text += "\nnamespace {\n\nusing namespace llmc;\n\n" + model_constants(plan) +
          weight_offsets(plan.program);
  for (const plan::Stage& stage : plan.program.forward) {
    if (const auto* loop = std::get_if<plan::LoopStage>(&stage.op))
      text += loop_weights(plan.program, *loop);
  }
  text += buffer_offsets(plan) + functions(plan) + encode_function(plan) +
          encode_image_function(plan) + descriptor(plan, weights_hash);
  text += fmt::format(
      "\n}}  // namespace\n\n"
      "const llmc_model {0}_model = kModel;\n\n"
      "llmc_status {0}_init(llmc_session** session, void* arena, size_t bytes, const llmc_config* "
      "config) {{\n"
      "  return llmc_session_init(&{0}_model, arena, bytes, config, session);\n"
      "}}\n",
      plan.options.name);
  return text + encode_definition(plan) + encode_image_definition(plan);
}

}  // namespace llmc::emit
