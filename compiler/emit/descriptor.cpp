#include "compiler/emit/descriptor.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/emit/dim_names.h"
#include "compiler/emit/media_encoder.h"
#include "compiler/emit/names.h"
#include "compiler/plan/embeddings.h"
#include "compiler/plan/kv_format.h"
#include "compiler/support/check.h"

namespace llmc::emit {

using plan::Plan;

namespace {

/// Returns the descriptor's fields of a shard; empty for a whole model.
std::string shard_fields(const Plan& plan) {
  const plan::ShardOption& shard = plan.options.shard;
  if (shard.count == 0) return {};
  return fmt::format("    .shard = {},\n    .shards = {},\n", shard.index, shard.count);
}

/// Returns the descriptor's fields for embeddings with several positions, if the model takes them.
std::string position_fields(const Plan& plan) {
  if (plan.program.position_axes == 0) return {};
  return fmt::format("    .position_axes = {}_POSITION_AXES,\n", macro_name(plan.options.name));
}

/// Returns the descriptor's fields for a compiled-in prompt, if there is one.
std::string prompt_fields(const Plan& plan) {
  if (plan.prompt.tokens == 0) return {};
  return fmt::format(
      "    .prefix_blocks = {0}_prompt.blocks,\n"
      "    .prefix_row = {0}_prompt.row,\n",
      plan.options.name);
}

}  // namespace

std::string source_alias(const Plan& encoder, std::uint64_t heads) {
  const auto stage = std::ranges::find_if(encoder.program.forward, [](const plan::Stage& s) {
    return std::holds_alternative<plan::SourceStoreStage>(s.op);
  });
  LLMC_CHECK(stage != encoder.program.forward.end());
  const auto& store = std::get<plan::SourceStoreStage>(stage->op);
  return fmt::format(
      "using Source = SourceShape<{}, {}, {}, {}, {}, KvFormats{{KvFormat::{}, KvFormat::{}}}>;\n",
      heads == 0 ? store.shape.kv_heads : heads, store.shape.kv_heads, store.shape.head_dim,
      store.max_rows, encoder.program.outputs.size(), plan::kv_enumerator(store.formats.keys),
      plan::kv_enumerator(store.formats.values));
}

std::string encode_function(const Plan& plan) {
  if (!plan.encoder) return {};
  const plan::Plan& encoder = *plan.encoder;
  const DimNames dims(encoder.program);
  const bool ids = plan::source_width(encoder) == 0;
  std::string text =
      "\n/// Runs the encoder and stores keys and values of each layer.\n"
      "uint32_t encode(const llmc_run* run, const void* input, [[maybe_unused]] uint32_t n,\n"
      "                unsigned char* source) {\n";
  if (!encoder.program.open_dims.empty())
    text +=
        fmt::format("  const int64_t {} = n;\n", DimNames::variable(dims.identifiers().front()));
  text += dims.quotient_lines();
  text += fmt::format("  const int64_t rows = {};\n", dims.text(plan::source_rows(encoder)));
  if (ids)
    text +=
        "  int64_t* const ids = reinterpret_cast<int64_t*>(run->scratch);\n"
        "  for (uint32_t i = 0; i < n; ++i) ids[i] = static_cast<const int32_t*>(input)[i];\n";
  text += fmt::format(
      "  const void* const inputs[] = {{{input}, run->weights + {weights}}};\n"
      "  void* outputs[{sources}];\n"
      "  for (uint64_t i = 0; i < {sources}; ++i) outputs[i] = source + i * {layer};\n"
      "  const int64_t dims[] = {{n}};\n"
      "  const llmc_run_options options{{sizeof options, run->threads,\n"
      "                                 run->uneven ? LLMC_CORES_UNEVEN : LLMC_CORES_EVEN,\n"
      "                                 run->parallel_for, run->user, dims}};\n"
      "  const int status = {name}_function::{name}_run_with(inputs, outputs, run->scratch + "
      "{arena}, &options);\n"
      "  return status == 0 ? static_cast<uint32_t>(rows) : 0;\n"
      "}}\n",
      fmt::arg("input", ids ? "ids" : "input"), fmt::arg("sources", plan.program.sources),
      fmt::arg("layer", encoder.program.outputs.front().bytes()),
      fmt::arg("name", encoder.options.name),
      fmt::arg("weights", plan.weights_bytes - encoder.weights_bytes),
      fmt::arg("arena", plan::encoder_arena_offset(encoder)));
  return text;
}

namespace {

/// Returns the declaration of NAME_encode without a semicolon.
std::string encode_signature(const Plan& plan) {
  return fmt::format("llmc_status {}_encode(llmc_session* session, const {}, size_t n)",
                     plan.options.name,
                     plan::source_width(*plan.encoder) == 0 ? "int32_t* ids" : "float* features");
}

}  // namespace

std::string encode_declaration(const Plan& plan) {
  if (!plan.encoder) return {};
  const bool ids = plan::source_width(*plan.encoder) == 0;
  const plan::Port& input = plan.encoder->program.inputs.front();
  std::vector<std::string> dims;
  for (const plan::Size& dim : input.dims)
    dims.push_back(dim.is_constant() ? to_string(dim) : std::string("n"));
  const std::string what =
      ids ? "token ids; see llmc_encode"
          : fmt::format("features f32[{}]; see llmc_encode_features", fmt::join(dims, ", "));
  return fmt::format(
      "/* Encodes a source for {}: {}. */\n"
      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n{};\n\n",
      plan.options.sources == 1 ? "all sequences of the session" : "the selected sequence", what,
      encode_signature(plan));
}

std::string encode_definition(const Plan& plan) {
  if (!plan.encoder) return {};
  const bool ids = plan::source_width(*plan.encoder) == 0;
  return fmt::format(
      "\n{} {{\n  return {};\n}}\n", encode_signature(plan),
      ids ? "llmc_encode(session, ids, n)" : "llmc_encode_features(session, features, n)");
}

namespace {

/// Returns the descriptor's fields for the encoder, if there is one.
std::string source_fields(const Plan& plan) {
  if (!plan.encoder) return {};
  return fmt::format(
      "    .source_min = {0}_SOURCE_MIN,\n"
      "    .source_max = {0}_SOURCE_MAX,\n"
      "    .source_width = {0}_SOURCE_WIDTH,\n"
      "    .source_vocab = {1},\n"
      "    .sources = {0}_SOURCES,\n"
      "    .source_bytes = {2},\n",
      macro_name(plan.options.name), plan.options.source_vocab, plan.source_bytes);
}

}  // namespace

std::string descriptor(const Plan& plan, std::uint64_t weights_hash) {
  const std::string& name = plan.options.name;
  const plan::Program& program = plan.program;
  return fmt::format(
      "\nconstexpr llmc_model kModel = {{\n"
      "    .abi = LLMC_MODEL_ABI,\n"
      "    .size = sizeof(llmc_model),\n"
      "    .name = \"{name}\",\n"
      "    .target = \"{target}\",\n"
      "    .vocab = kVocab,\n"
      "    .hidden = kHidden,\n"
      "    .layers = kLayers,\n"
      "    .heads = kHeads,\n"
      "    .kv_heads = kKvHeads,\n"
      "    .head_dim = kHeadDim,\n"
      "    .ctx = {macro}_CTX,\n"
      "    .sequences = {macro}_SEQUENCES,\n"
      "    .batch = kBatch,\n"
      "    .chunk = kChunk,\n"
      "    .kv_block = kBlock,\n"
      "    .pool_blocks = {macro}_KV_BLOCKS,\n"
      "    .threads_max = {macro}_THREADS_MAX,\n"
      "{uneven}"
      "{by_length}"
      "    .weights_bytes = {weights_bytes},\n"
      "    .weights_hash = 0x{hash:016x},\n"
      "    .program_hash = 0x{program:016x},\n"
      "    .scratch_bytes = {scratch},\n"
      "    .hidden_offset = {hidden_rows},\n"
      "{kv_token}"
      "    .kv_format = kv_format_number(kCache),\n"
      "{prefix}"
      "    .kv_block_bytes = kv_block_bytes(kLayers, kKvHeads, kHeadDim, kBlock, kCache),\n"
      "    .arena_bytes = {macro}_ARENA_BYTES,\n"
      "{source}"
      "{embedding}"
      "{image_sizes}"
      "{states}"
      "{steps}"
      "{shard}"
      "{regions}"
      "    .weights = {weights},\n"
      "    .cpu_supported = {cpu_check},\n"
      "    .forward = forward,\n"
      "{step}"
      "{flights}"
      "{head}"
      "{choose}"
      "{encode}"
      "{image}"
      "    .kv_save = kv_save{attention},\n"
      "    .kv_load = kv_load{attention},\n"
      "{prompt}"
      "{vocabulary}"
      "}};\n"
      "static_assert(llmc_arena_layout_of_model(&kModel).total == kModel.arena_bytes);\n",
      fmt::arg("name", name), fmt::arg("target", plan.options.target->name),
      fmt::arg("source", source_fields(plan)),
      fmt::arg("kv_token", program.layers == 0
                               ? ""
                               : "    .kv_token_bytes = kv_token_bytes(kLayers, kKvHeads, "
                                 "kHeadDim, kCache),\n"),
      fmt::arg("attention", program.layers == 0 ? "_nothing" : "<Attention>"),
      fmt::arg("embedding",
               plan::embedding_width(program) == 0
                   ? std::string()
                   : fmt::format("    .embedding_width = {}_EMBEDDING_WIDTH,\n", macro_name(name)) +
                         position_fields(plan)),
      fmt::arg("states", plan.state_bytes == 0
                             ? std::string()
                             : fmt::format("    .state_bytes = {},\n", plan.state_bytes)),
      fmt::arg("encode", plan.encoder ? "    .encode = encode,\n" : ""),
      fmt::arg("image_sizes", image_sizes(plan)),
      fmt::arg("image", plan.media_encoder ? "    .encode_image = encode_image,\n" : ""),
      fmt::arg("macro", macro_name(name)), fmt::arg("prompt", prompt_fields(plan)),
      fmt::arg("prefix",
               plan.prompt.tokens == 0
                   ? std::string()
                   : fmt::format("    .prefix_tokens = {}_PROMPT_TOKENS,\n", macro_name(name))),
      fmt::arg("uneven", plan.options.target->uneven_cores ? "    .uneven_cores = 1,\n" : ""),
      fmt::arg("by_length", std::ranges::any_of(program.buffers,
                                                [](const plan::Buffer& buffer) {
                                                  return buffer.place ==
                                                         plan::Place::kLastPositions;
                                                })
                                ? "    .by_length = 1,\n"
                                : ""),
      fmt::arg("weights_bytes", plan.weights_bytes), fmt::arg("hash", weights_hash),
      fmt::arg("program", plan.program_hash),
      fmt::arg("steps", plan.partition ? "    .steps = kSteps,\n    .in_flight = kInFlight,\n"
                                       : "    .in_flight = 1,\n"),
      fmt::arg("regions", plan.partition ? "    .step_regions = kStepRegions,\n"
                                           "    .device_program = &kDeviceProgram,\n"
                                         : ""),
      fmt::arg("head", plan.options.shard.is_last() ? "    .head = head,\n" : ""),
      fmt::arg("choose",
               plan.options.shard.is_last() && plan::greedy_choice_product(program) != nullptr
                   ? "    .choose = choose,\n"
                   : ""),
      fmt::arg("shard", shard_fields(plan)),
      fmt::arg("step", plan.partition ? "    .run_step = run_step,\n" : ""),
      fmt::arg("flights", plan.partition ? "    .run_in_flight = llmc_run_in_flight,\n" : ""),
      fmt::arg("scratch", plan.memory.scratch_bytes),
      fmt::arg("hidden_rows", constant_name(program.buffers[program.hidden.index].name)),
      fmt::arg("weights", plan.options.embed_weights ? name + "_weights" : "nullptr"),
      fmt::arg("cpu_check", plan.options.target->cpu_check),
      fmt::arg("vocabulary", plan.options.vocabulary_hash == 0
                                 ? ""
                                 : fmt::format("    .vocabulary_hash = 0x{:016x},\n",
                                               plan.options.vocabulary_hash)));
}

}  // namespace llmc::emit
