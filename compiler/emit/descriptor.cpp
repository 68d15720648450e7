#include "compiler/emit/descriptor.h"

#include <fmt/format.h>

#include "compiler/emit/names.h"
#include "compiler/plan/program_hash.h"

namespace llmc::emit {

using plan::Plan;

namespace {

/// Returns the descriptor's fields for a compiled-in prompt, if there is one.
std::string prompt_fields(const Plan& plan) {
  if (plan.prompt.tokens == 0) return {};
  return fmt::format(
      "    .prefix_blocks = {0}_prompt.blocks,\n"
      "    .prefix_row = {0}_prompt.row,\n",
      plan.options.name);
}

}  // namespace

std::string encode_function(const Plan& plan) {
  if (!plan.encoder) return {};
  const plan::AttentionShape& cross = plan.program.cross;
  return fmt::format(
      "\n/// Runs the encoder and stores keys and values of each layer, f32[2][{kv_heads}][n]"
      "[{head_dim}].\n"
      "int encode(const llmc_run* run, const int32_t* ids, uint32_t n, float* source) {{\n"
      "  int64_t* const wide = reinterpret_cast<int64_t*>(run->scratch);\n"
      "  for (uint32_t i = 0; i < n; ++i) wide[i] = ids[i];\n"
      "  const void* const inputs[] = {{wide, run->weights + {weights}}};\n"
      "  void* outputs[kLayers];\n"
      "  for (uint64_t i = 0; i < kLayers; ++i) outputs[i] = source + i * {layer} * n;\n"
      "  const int64_t dims[] = {{n}};\n"
      "  const llmc_run_options options{{sizeof options, run->threads,\n"
      "                                 run->uneven ? LLMC_CORES_UNEVEN : LLMC_CORES_EVEN,\n"
      "                                 run->parallel_for, run->user, dims}};\n"
      "  return {name}_function::{name}_run_with(inputs, outputs, run->scratch + {arena}, "
      "&options);\n"
      "}}\n",
      fmt::arg("kv_heads", cross.kv_heads), fmt::arg("head_dim", cross.head_dim),
      fmt::arg("layer", 2 * cross.kv_heads * cross.head_dim),
      fmt::arg("name", plan.encoder->options.name),
      fmt::arg("weights", plan.weights_bytes - plan.encoder->weights_bytes),
      fmt::arg("arena", plan::encoder_arena_offset(plan.options)));
}

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
      "    .weights_bytes = {weights_bytes},\n"
      "    .weights_hash = 0x{hash:016x},\n"
      "    .program_hash = 0x{program:016x},\n"
      "    .scratch_bytes = {scratch},\n"
      "    .hidden_offset = {hidden_rows},\n"
      "    .kv_token_bytes = kv_token_bytes(kLayers, kKvHeads, kHeadDim, kCache),\n"
      "    .kv_format = kv_format_number(kCache),\n"
      "{prefix}"
      "    .kv_block_bytes = kv_block_bytes(kLayers, kKvHeads, kHeadDim, kBlock, kCache),\n"
      "    .arena_bytes = {macro}_ARENA_BYTES,\n"
      "{source_max}"
      "    .weights = {weights},\n"
      "    .cpu_supported = {cpu_check},\n"
      "    .forward = forward,\n"
      "    .head = head,\n"
      "{encode}"
      "    .kv_save = kv_save<Attention>,\n"
      "    .kv_load = kv_load<Attention>,\n"
      "{vocabulary}"
      "{prompt}"
      "}};\n"
      "static_assert(llmc_arena_layout_of_model(&kModel).total == kModel.arena_bytes);\n",
      fmt::arg("name", name), fmt::arg("target", plan.options.target->name),
      fmt::arg("source_max", plan.encoder ? fmt::format("    .source_max = {}_SOURCE_MAX,\n"
                                                        "    .source_bytes = {},\n",
                                                        macro_name(name), plan.source_bytes)
                                          : std::string()),
      fmt::arg("encode", plan.encoder ? "    .encode = encode,\n" : ""),
      fmt::arg("macro", macro_name(name)), fmt::arg("prompt", prompt_fields(plan)),
      fmt::arg("prefix",
               plan.prompt.tokens == 0
                   ? std::string()
                   : fmt::format("    .prefix_tokens = {}_PROMPT_TOKENS,\n", macro_name(name))),
      fmt::arg("uneven", plan.options.target->uneven_cores ? "    .uneven_cores = 1,\n" : ""),
      fmt::arg("weights_bytes", plan.weights_bytes), fmt::arg("hash", weights_hash),
      fmt::arg("program", plan::program_hash(program)),
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
