#include "compiler/emit/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/emit/commented_lines.h"
#include "compiler/emit/descriptor.h"
#include "compiler/emit/device_program.h"
#include "compiler/emit/kernel_names.h"
#include "compiler/emit/media_encoder.h"
#include "compiler/emit/names.h"
#include "compiler/emit/plain_source.h"
#include "compiler/emit/stage_calls.h"
#include "compiler/emit/stage_marks.h"
#include "compiler/emit/steps.h"
#include "compiler/emit/wrap.h"
#include "compiler/plan/embeddings.h"
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

std::string weight_offsets(const Plan& plan) {
  CommentedLines lines;
  std::set<std::uint32_t> in_loops;
  for (const plan::Stage& stage : plan.program.forward) {
    if (const auto* loop = std::get_if<plan::LoopStage>(&stage.op)) {
      for (const auto& field : loop->fields)
        in_loops.insert(field.weights.begin(), field.weights.end());
    }
  }
  for (std::uint32_t i = 0; i < plan.program.weights.size(); ++i) {
    const plan::PackedWeight& weight = plan.program.weights[i];
    if (in_loops.contains(i)) continue;
    lines.add_offset(weight.label, weight.offset, weight_comment(weight));
  }
  return "// Where each weight starts, in bytes. format[rows, columns]  name in the model\n" +
         lines.text();
}

std::string loop_weights(const Plan& plan, const plan::LoopStage& loop) {
  const std::string type = type_name(loop.function + "_weights");
  std::string text = fmt::format("\nstruct {} {{\n", type);
  CommentedLines lines;
  for (const auto& field : loop.fields) {
    const plan::PackedWeight& first = plan.program.weights[field.weights.front()];
    lines.add(fmt::format("  uint64_t {};", field.name), weight_comment(first));
  }
  text += lines.text();
  text +=
      fmt::format("}};\nconstexpr {} k{}[{}] = {{\n", type, type, iterations(plan.program, loop));
  for (std::uint32_t i = 0; i < loop.count; ++i) {
    std::string row;
    for (const auto& field : loop.fields) {
      row += fmt::format("{}{}", row.empty() ? "" : ", ",
                         plan.program.weights[field.weights[i]].offset);
    }
    text += fmt::format("    {{{}}},\n", row);
  }
  return text + "};\n";
}

std::string scratch_offsets(const Plan& plan) {
  CommentedLines lines;
  for (std::size_t i = 0; i < plan.program.buffers.size(); ++i) {
    const plan::BufferPlace& place = plan.memory.buffers[i];
    const plan::Buffer& buffer = plan.program.buffers[i];
    if (place.bytes == 0) continue;
    lines.add_offset(buffer.name, place.offset,
                     fmt::format("{}[{}, {}]", ir::to_string(buffer.element),
                                 buffer.one_row ? "kBatch" : "kChunk", buffer.width));
  }
  lines.add_offset("work", plan.memory.work_offset,
                   fmt::format("{} bytes that all kernels share", plan.memory.work_bytes));
  return "\n// Where each activation lies in scratch, in bytes.\n" + lines.text();
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

/// Returns the macros with token ids for programs that have no tokenizer.
std::string token_ids(const Plan& plan, const std::string& macro) {
  const plan::PlanOptions& options = plan.options;
  std::string text;
  if (options.bos_id >= 0) {
    text += fmt::format("\n/* A prompt starts with this id. */\n#define {}_BOS_ID {}\n", macro,
                        options.bos_id);
  }
  if (!options.start_ids.empty()) {
    text += fmt::format(
        "\n/* The text of each source starts with these ids: `static const int32_t start[] = "
        "{0}_START_IDS;` */\n"
        "#define {0}_START_COUNT {1}\n#define {0}_START_IDS {{{2}}}\n",
        macro, options.start_ids.size(), fmt::join(options.start_ids, ", "));
  }
  if (!options.stop_ids.empty()) {
    text += fmt::format(
        "\n/* A text ends with any of these ids: `static const int32_t stop[] = {0}_STOP_IDS;` */\n"
        "#define {0}_STOP_COUNT {1}\n#define {0}_STOP_IDS {{{2}}}\n",
        macro, options.stop_ids.size(), fmt::join(options.stop_ids, ", "));
  }
  return text;
}

}  // namespace

std::string model_source(const Plan& plan, std::uint64_t weights_hash) {
  const std::string& name = plan.options.name;
  const plan::Program& program = plan.program;
  const bool has_nests = plan::has_nests(program.forward) || plan::has_nests(program.head);
  std::string text = fmt::format(
      "// The forward pass of {name} for {target}, written by llmc {version}.\n"
      "// {layers} layer{plural}, hidden {hidden}, {heads} query heads, {kv_heads} KV heads, "
      "head_dim {head_dim}, vocabulary {vocab}.\n"
      "// build.sh beside this file rebuilds the library.\n\n"
      "#include \"{name}.h\"\n"
      "#include \"llmc/arena.h\"\n"
      "#include \"llmc/cpu.h\"\n"
      "{device}"
      "#include \"llmc/emitted.h\"\n"
      "{nests}"
      "#include \"llmc/kernels.h\"\n"
      "{states}"
      "#include \"llmc/model.h\"\n",
      fmt::arg("name", name), fmt::arg("target", target::described(*plan.options.target)),
      fmt::arg("version", kCompilerVersion), fmt::arg("layers", program.layers),
      fmt::arg("plural", program.layers == 1 ? "" : "s"), fmt::arg("hidden", program.hidden_width),
      fmt::arg("heads", program.attention.heads), fmt::arg("kv_heads", program.attention.kv_heads),
      fmt::arg("head_dim", program.attention.head_dim), fmt::arg("vocab", program.vocabulary),
      fmt::arg("device", plan.partition ? "#include \"llmc/device_op.h\"\n" : ""),
      fmt::arg("states", program.states.empty() ? "" : "#include \"llmc/kernels/state.h\"\n"),
      fmt::arg("nests", has_nests ? "#include \"llmc/function.h\"\n" : ""));
  if (plan.function()) text += "#include \"llmc/graph_call.h\"\n";
  text += weights_declaration(plan);
  if (plan.prompt.tokens > 0) {
    text += fmt::format(
        "\n// The cache after the prompt that was compiled in, and the last layer's row of its "
        "last token.\n"
        "struct {0}_prompt_data {{\n"
        "  unsigned char blocks[{1}];\n"
        "  float row[{2}];\n"
        "}};\n"
        "extern \"C\" __attribute__((visibility(\"hidden\")))\n"
        "const {0}_prompt_data {0}_prompt;\n",
        name, plan.prompt.blocks_bytes, program.hidden_width);
  }
  if (const Plan* const function = plan.function()) text += function_body(*function, 0);
  text += "\nnamespace {\n\nusing namespace llmc;\n\n" + model_constants(plan) + "\n";
  text += weight_offsets(plan);
  for (const plan::Stage& stage : program.forward) {
    if (const auto* loop = std::get_if<plan::LoopStage>(&stage.op))
      text += loop_weights(plan, *loop);
  }
  text += scratch_offsets(plan);
  text += functions(plan);
  text += encode_function(plan);
  text += encode_image_function(plan);
  text += descriptor(plan, weights_hash);
  text += fmt::format(
      "\n}}  // namespace\n\n"
      "const llmc_model {0}_model = kModel;\n\n"
      "llmc_status {0}_init(llmc_session** session, void* arena, size_t bytes, const llmc_config* "
      "config) {{\n"
      "  return llmc_session_init(&{0}_model, arena, bytes, config, session);\n"
      "}}\n",
      name);
  return wrapped(text + encode_definition(plan) + encode_image_definition(plan));
}

std::string header(const Plan& plan, std::uint64_t weights_hash) {
  const std::string& name = plan.options.name;
  const std::string macro = macro_name(name);
  const std::uint64_t embedding = plan::embedding_width(plan.program);
  std::string text =
      header_begin(plan, "a language model", embedding == 0 ? "llmc/llmc.h" : "llmc/embeddings.h");
  text += fmt::format(
      "/* Size in bytes of the arena for {0}_init, for {1}_CTX tokens and {1}_THREADS_MAX "
      "threads.\n"
      "   The arena must be aligned to LLMC_ALIGNMENT. Nothing else is allocated. */\n",
      name, macro);
  const auto constant = [&](const char* what, std::uint64_t value, const std::string& comment) {
    const std::string code = fmt::format("#define {}_{} {}u", macro, what, value);
    text += comment.empty() ? code + "\n"
                            : fmt::format("{:<{}} /* {} */\n", code, macro.size() + 38, comment);
  };
  constant("ARENA_BYTES", plan.arena_bytes, "");
  constant("CTX", plan.options.ctx, "tokens of a sequence");
  if (plan.encoder) {
    const std::uint64_t width = plan::source_width(*plan.encoder);
    constant("SOURCE_WIDTH", width, width == 0 ? "a source is token ids" : "features of a frame");
    constant("SOURCE_MIN", plan.options.source_min, "");
    constant("SOURCE_MAX", plan.options.source_max,
             width == 0 ? "tokens of a source" : "frames of a source");
    constant("SOURCES", plan.options.sources,
             plan.options.sources == 1 ? "all sequences attend to one" : "maximum in a session");
  }
  if (embedding > 0) constant("EMBEDDING_WIDTH", embedding, "elements of an embedding");
  if (embedding > 0 && plan.program.position_axes > 0)
    constant("POSITION_AXES", plan.program.position_axes,
             "positions of an embedding, for llmc_append_embeddings_at");
  constant("VOCAB", plan.program.vocabulary, "logits; token ids are 0 .. VOCAB-1");
  constant("CHUNK", plan.options.chunk, "tokens of a prompt that are run at once");
  constant("SEQUENCES", plan.options.sequences, "maximum number in a session");
  constant("BATCH", plan.options.batch, "maximum number stepped together");
  constant("KV_BLOCK", plan.options.block, "tokens of a cache block");
  constant("KV_BLOCKS", plan.kv.blocks, "of the cache, for all sequences together");
  constant("KV_BYTES", plan.kv.bytes, "of the cache, inside the arena");
  constant("THREADS_MAX", plan.options.threads_max, "worker slots");
  constant("WEIGHTS_BYTES", plan.weights_bytes,
           plan.options.embed_weights
               ? std::string("read-only, in the library")
               : fmt::format("read-only, in {}.weights.bin after a header of 64 bytes", name));
  if (plan.prompt.tokens > 0) {
    constant("PROMPT_TOKENS", plan.prompt.tokens, "that every sequence begins with");
    constant("PROMPT_BYTES", plan.prompt.bytes, "of their cache, read-only, in the library");
  }
  text += fmt::format("#define {}_WEIGHTS_XXH64 0x{:016x}u\n", macro, weights_hash);
  text += token_ids(plan, macro);
  if (plan.options.grammar_bytes > 0) {
    text += fmt::format(
        "\n/* Tables of the grammar that was compiled in ({2}), for llmc_grammar_init.\n"
        "   Not linked unless referenced. */\n"
        "#define {1}_GRAMMAR_BYTES {3}u\n"
        "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
        "extern const unsigned char {0}_grammar[{1}_GRAMMAR_BYTES];\n",
        name, macro, plan.options.grammar_kind == "gbnf" ? "GBNF" : "a JSON schema",
        plan.options.grammar_bytes);
  }
  text += fmt::format(
      "\n/* Builds a session in arena[0 .. bytes); see llmc_session_init. {1}. "
      "*/\n"
      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
      "llmc_status\n{0}_init(llmc_session** session, void* arena, size_t bytes, const llmc_config* "
      "config);\n\n"
      "{3}"
      "/* The model itself, for llmc_session_init. */\n"
      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
      "extern const llmc_model {0}_model;\n\n{2}",
      name, plan.options.embed_weights ? "config may be NULL" : "config gives the weights",
      kHeaderEnd, encode_declaration(plan) + image_declarations(plan));
  return wrapped(text);
}

std::string weights_declaration(const Plan& plan) {
  if (plan.weights_bytes == 0 || !plan.options.embed_weights || plan.options.raw_weights) return {};
  return fmt::format(
      "\nextern \"C\" __attribute__((visibility(\"hidden\")))\n"
      "const unsigned char {}_weights[{}];\n",
      plan.options.name, plan.weights_bytes);
}

std::string header_begin(const Plan& plan, std::string_view what, std::string_view include) {
  return fmt::format(
      "/*\n"
      " * {0}: {1} compiled for {2} by llmc {3}.\n"
      " * Link lib{0}.a; it needs memcpy, memset, memmove and memcmp and nothing else.\n"
      " */\n"
      "#ifndef {4}_H\n#define {4}_H\n\n"
      "#include \"{5}\"\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      plan.options.name, what, target::described(*plan.options.target), kCompilerVersion,
      macro_name(plan.options.name), include);
}

}  // namespace llmc::emit
