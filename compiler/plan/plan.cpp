#include "compiler/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/plan/code_size.h"
#include "compiler/plan/embeddings.h"
#include "compiler/plan/program_hash.h"
#include "llmc/arena.h"
#include "llmc/sizes.h"

namespace llmc::plan {
namespace {

Status check_options(const PlanOptions& options) {
  const std::uint32_t group = options.target->token_group;
  if (options.ctx == 0 || options.ctx > kMaxContext) {
    return usage_error(fmt::format("the context cannot have {} tokens", options.ctx),
                       fmt::format("--ctx takes 1 to {}", kMaxContext));
  }
  if (!options.contiguous &&
      (options.block == 0 || options.block > kMaxBlock || options.block % group != 0)) {
    return usage_error(fmt::format("a KV cache block cannot have {} tokens", options.block),
                       fmt::format("--block takes a multiple of {} up to {}", group, kMaxBlock));
  }
  if (options.chunk == 0 || options.chunk > kMaxChunk) {
    return usage_error(fmt::format("a prompt cannot be run in chunks of {} tokens", options.chunk),
                       fmt::format("--chunk takes 1 to {}", kMaxChunk));
  }
  if (options.sequences == 0 || options.sequences > kMaxSequences) {
    return usage_error(fmt::format("a session cannot have {} sequences", options.sequences),
                       fmt::format("--sequences takes 1 to {}", kMaxSequences));
  }
  if (options.batch == 0 || options.batch > options.chunk) {
    return usage_error(
        fmt::format("{} sequences cannot be stepped together", options.batch),
        fmt::format("--batch takes 1 to the tokens of --chunk, which are {}", options.chunk));
  }
  if (options.sources == 0 || options.sources > kMaxSequences) {
    return usage_error(fmt::format("a session cannot have {} sources", options.sources),
                       fmt::format("--sources takes 1 to {}", kMaxSequences));
  }
  if (options.pool > kMaxPool) {
    return usage_error(fmt::format("the cache cannot have {} blocks", options.pool),
                       fmt::format("--pool takes 1 to {}", kMaxPool));
  }
  if (options.threads_max == 0 || options.threads_max > kMaxThreads) {
    return usage_error(fmt::format("an arena cannot have room for {} threads", options.threads_max),
                       fmt::format("--threads-max takes 1 to {}", kMaxThreads));
  }
  if (options.in_flight == 0 || options.in_flight > kMaxInFlight) {
    return usage_error(
        fmt::format("{} chunks of a prompt cannot be computed at the same time", options.in_flight),
        fmt::format("--in-flight takes 1 to {}", kMaxInFlight));
  }
  return ok_status();
}

Result<PromptPlan> plan_prompt(const Plan& plan) {
  const PlanOptions& options = plan.options;
  PromptPlan prompt;
  if (options.prompt.empty()) return prompt;
  const auto bad = [&](std::string message, std::string hint) {
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = options.prompt_source,
                      .node = {},
                      .op = {},
                      .message = std::move(message),
                      .hint = std::move(hint)};
  };
  if (plan.state_bytes > 0)
    return bad("a model with recurrent states cannot have a compiled-in system prompt",
               "prefill the prompt when the program starts, and fork its sequence");
  if (options.contiguous) {
    return usage_error(
        "a system prompt in a contiguous cache would be copied with its whole context for every "
        "sequence",
        "leave out --cache contiguous: sequences then share the prompt's blocks");
  }
  for (const std::int32_t id : options.prompt) {
    if (id >= 0 && static_cast<std::uint64_t>(id) < plan.program.vocabulary) continue;
    return bad(fmt::format("token {} of the system prompt is not in the vocabulary of {}", id,
                           plan.program.vocabulary),
               "the ids or the tokenizer belong to another model");
  }
  if (options.prompt.size() >= options.ctx) {
    return bad(fmt::format("the system prompt has {} tokens, which leaves no room in a context of "
                           "{}",
                           options.prompt.size(), options.ctx),
               "give a shorter prompt, or a larger --ctx");
  }
  prompt.tokens = static_cast<std::uint32_t>(options.prompt.size());
  prompt.blocks = (prompt.tokens + plan.kv.block - 1) / plan.kv.block;
  prompt.blocks_bytes = prompt.blocks * plan.kv.block_bytes;
  prompt.bytes =
      prompt.blocks_bytes + round_up(plan.program.hidden_width * sizeof(float), kAlignment);
  return prompt;
}

}  // namespace

std::uint32_t context_of(const PlanOptions& options) {
  if (options.ctx_given) return options.ctx;
  const std::uint32_t trained =
      options.trained_ctx == 0 ? options.ctx : std::min(options.ctx, options.trained_ctx);
  return std::max(trained, options.ctx_needed);
}

std::uint64_t source_width(const Plan& encoder) {
  const Port& input = encoder.program.inputs.front();
  if (input.element == ir::ElementType::kI64) return 0;
  const auto elements = static_cast<std::uint64_t>(product(input.dims).bound());
  return elements / encoder.options.source_max;
}

std::string_view source_unit(std::uint64_t width) {
  return width == 0 ? "tokens" : width == 1 ? "samples" : "frames";
}

bool frames_first(const Plan& encoder) {
  const Sizes& dims = encoder.program.inputs.front().dims;
  return !all_constant(dims) && dims.back().is_constant();
}

const Size& source_rows(const Plan& encoder) {
  return encoder.program.source_rows;
}

std::uint64_t encoder_arena_offset(const Plan& encoder) {
  const bool ids = source_width(encoder) == 0;
  return ids ? round_up(encoder.options.source_max * sizeof(std::int64_t), kAlignment) : 0;
}

Size image_rows(const Plan& media_encoder) {
  Sizes dims = media_encoder.program.outputs.front().dims;
  dims.pop_back();
  return product(dims);
}

namespace {

/// Checks that the decoder accepts the rows of the media encoder.
Status check_image_rows(const Plan& media_encoder, const Program& decoder) {
  const Port& rows = media_encoder.program.outputs.front();
  const std::vector<Stage>& stages = media_encoder.program.forward;
  const std::string file = stages.empty() ? std::string() : stages.front().origin.file;
  const std::uint64_t width = embedding_width(decoder);
  if (width == 0)
    return Diagnostic{.kind = ErrorKind::kUnsupported,
                      .file = file,
                      .message =
                          "the decoder takes no rows of images: it uses token ids for more "
                          "than the lookup of its embedding",
                      .hint = "leave --dim out to compile the decoder without the image encoder"};
  if (rows.dims.back() != Size(static_cast<std::int64_t>(width)))
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = file,
                      .node = rows.name,
                      .message = fmt::format(
                          "the image encoder returns rows of {} elements, but the embeddings of "
                          "the decoder have {}",
                          to_string(rows.dims.back()), width),
                      .hint = "the files may be of different models"};
  return ok_status();
}

/// Limits the context to the model's position table.
Status fit_context(PlanOptions& options, const Program& program) {
  if (program.positions_max == 0 || options.ctx <= program.positions_max) return ok_status();
  if (options.ctx_given) {
    return usage_error(
        fmt::format("the model's position table ends after {} tokens, the context is {}",
                    program.positions_max, options.ctx),
        fmt::format("use --ctx {}", program.positions_max));
  }
  options.ctx = static_cast<std::uint32_t>(program.positions_max);
  return ok_status();
}

Status check_sizes(const Program& program) {
  constexpr std::uint64_t kIdLimit = std::numeric_limits<std::int32_t>::max();
  if (program.vocabulary <= kIdLimit && program.hidden_width <= kIdLimit) return ok_status();
  return Diagnostic{.kind = ErrorKind::kBadInput,
                    .message = "a vocabulary or hidden size above 2^31"};
}

/// Determines size and number of the blocks of the KV cache.
Status plan_blocks(Plan& plan) {
  PlanOptions& options = plan.options;
  const AttentionShape& shape = plan.program.attention;
  KvPlan& kv = plan.kv;
  const std::uint32_t group = options.target->token_group;
  if (options.contiguous) options.block = (options.ctx + group - 1) / group * group;
  kv.block = options.block;
  kv.layer_bytes = kv_layer_bytes(shape.kv_heads, shape.head_dim, kv.block, options.kv);
  const std::uint64_t blocks = round_up(options.ctx, kv.block) / kv.block * options.sequences;
  if (options.pool == 0 && blocks > kMaxPool) {
    return usage_error(fmt::format("{} sequences of {} tokens need {} blocks", options.sequences,
                                   options.ctx, blocks),
                       "set their number with --pool, or use a larger --block");
  }
  kv.blocks = options.pool != 0 ? options.pool : static_cast<std::uint32_t>(blocks);
  return ok_status();
}

/// Cuts out the shard, and divides the program between CPU and accelerator, if the options request
/// it.
Status cut(Plan& plan) {
  const PlanOptions& options = plan.options;
  if (options.shard.count > 0) {
    const std::uint64_t cache_bytes = plan.kv.blocks * plan.kv.layer_bytes;
    LLMC_TRY(plan.program, cut_shard(plan.program, options.shard, cache_bytes));
    if (options.shard.by_memory) plan.program_hash ^= cache_bytes + 1;
  }
  if (options.device != nullptr) {
    LLMC_TRY(plan.partition, partition(plan.program, *options.device, options.chunk));
  }
  return ok_status();
}

/// Plans what a decoder has besides the stages: its context, its cache, and the parts that shards
/// and accelerators compute.
Status plan_decoder(Plan& plan, const EncoderPlans& encoders) {
  LLMC_RETURN_IF_ERROR(fit_context(plan.options, plan.program));
  // A pass never runs more tokens than the context has, or sequences of a batch.
  PlanOptions& options = plan.options;
  if (!options.chunk_given)
    options.chunk = std::min(options.chunk, std::max(options.ctx, options.batch));
  LLMC_RETURN_IF_ERROR(check_sizes(plan.program));
  plan.program_hash =
      program_hash(plan.program, encoders.source ? &encoders.source->program : nullptr);
  LLMC_RETURN_IF_ERROR(plan_blocks(plan));
  return cut(plan);
}

/// Plans the scratch memory. A decoder and its encoder use it one after the other.
Status plan_scratch(Plan& plan, EncoderPlans& encoders) {
  const PlanOptions& options = plan.options;
  const bool plain = plan.program.is_plain();
  const std::uint64_t max_rows =
      encoders.source ? static_cast<std::uint64_t>(source_rows(*encoders.source).bound()) : 0;
  LLMC_TRY(plan.memory, plan_memory(plan.program, {.chunk = plain ? 1 : options.chunk,
                                                   .batch = plain ? 1 : options.batch,
                                                   .ctx = options.ctx,
                                                   .threads_max = options.threads_max,
                                                   .kv = options.kv,
                                                   .source_rows = max_rows}));
  std::uint64_t& scratch = plan.memory.scratch_bytes;
  LLMC_CHECK(!encoders.source || !encoders.media);
  if (std::shared_ptr<const Plan>& encoder = encoders.source) {
    if (plan.program.cross.heads == 0)
      return Diagnostic{.kind = ErrorKind::kUnsupported,
                        .message = "the decoder has no attention to the encoder's rows"};
    scratch = std::max(scratch,
                       encoder_arena_offset(*encoder) + round_up(encoder->arena_bytes, kAlignment));
    for (const Port& output : encoder->program.outputs) plan.source_bytes += output.bytes();
    plan.encoder = std::move(encoder);
  }
  if (encoders.media) {
    LLMC_RETURN_IF_ERROR(check_image_rows(*encoders.media, plan.program));
    scratch = std::max(scratch, round_up(encoders.media->arena_bytes, kAlignment));
    plan.media_encoder = std::move(encoders.media);
  }
  if (plan.in_flight() > 1) scratch = round_up(scratch, std::uint64_t{LLMC_PAGE_BYTES});
  return ok_status();
}

Status plan_arena(Plan& plan) {
  const PlanOptions& options = plan.options;
  const Program& program = plan.program;
  if (program.is_plain()) {
    // C has no arrays of size 0, and NAME_run does not accept NULL.
    plan.arena_bytes = std::max<std::uint64_t>(plan.memory.scratch_bytes, kAlignment);
    return ok_status();
  }
  const AttentionShape& shape = program.attention;
  KvPlan& kv = plan.kv;
  plan.state_bytes = program.state_bytes();
  kv.block_bytes =
      kv_block_bytes(program.layers, shape.kv_heads, shape.head_dim, kv.block, options.kv);
  const std::uint64_t logits = options.shard.is_last() ? program.vocabulary : 0;
  const llmc_arena_layout arena =
      llmc_arena_layout_of({.vocab = static_cast<std::uint32_t>(logits),
                            .hidden = static_cast<std::uint32_t>(program.hidden_width),
                            .ctx = options.ctx,
                            .sequences = options.sequences,
                            .batch = options.batch,
                            .kv_block = kv.block,
                            .pool_blocks = kv.blocks,
                            .scratch_bytes = plan.memory.scratch_bytes,
                            .kv_block_bytes = kv.block_bytes,
                            .sources = plan.encoder ? options.sources : 0,
                            .source_bytes = plan.source_bytes,
                            .state_bytes = plan.state_bytes,
                            .in_flight = plan.in_flight()});
  if (arena.total > static_cast<std::uint64_t>(INT64_MAX))
    return usage_error("the arena does not fit an address space", "use a smaller --ctx");
  kv.bytes = kv.blocks * kv.block_bytes;
  plan.arena_bytes = arena.total;
  return ok_status();
}

/// Sums the sizes of all weights, and of those that a token reads.
void count_weights(Plan& plan) {
  for (const PackedWeight& weight : plan.program.weights) {
    plan.weights_bytes = weight.offset + round_up(weight.bytes, kAlignment);
    plan.parameters += weight.rows * weight.columns;
    const bool is_table = weight.use == WeightUse::kTable;
    plan.weights_per_token_bytes +=
        is_table ? table_row_bytes(weight.table, weight.columns) : weight.active_bytes();
    plan.parameters_per_token += is_table ? weight.columns : weight.active_elements();
  }
  if (const Plan* const function = plan.function()) plan.weights_bytes += function->weights_bytes;
}

}  // namespace

Result<Plan> make_plan(const ir::Graph& graph, const PlanOptions& options, EncoderPlans encoders) {
  LLMC_CHECK(options.target != nullptr);
  const bool decoder = options.entry == ir::EntryKind::kForward;
  Plan plan;
  plan.options = options;
  if (decoder) {
    plan.options.ctx = context_of(options);
    LLMC_RETURN_IF_ERROR(check_options(plan.options));
    if (options.shard.count > 0 && encoders.media)
      return Diagnostic{.kind = ErrorKind::kUnsupported,
                        .message = "a model with an image encoder cannot be cut into shards",
                        .hint = "give the path of the decoder's file to compile it alone"};
  }
  LLMC_TRY(plan.program, lower(graph, {.entry = options.entry,
                                       .context = plan.options.ctx,
                                       .threads_max = options.threads_max,
                                       .open_dims = options.open_dims,
                                       .source_formats = options.kv}));
  if (decoder) LLMC_RETURN_IF_ERROR(plan_decoder(plan, encoders));
  LLMC_RETURN_IF_ERROR(plan_scratch(plan, encoders));
  LLMC_RETURN_IF_ERROR(plan_arena(plan));
  count_weights(plan);
  if (!decoder) return plan;
  LLMC_TRY(plan.prompt, plan_prompt(plan));
  plan.code_bytes = estimate_code_bytes(plan);
  return plan;
}

Status check_budget(const Plan& plan, std::uint64_t max_ram) {
  if (max_ram == 0 || plan.arena_bytes <= max_ram) return ok_status();
  if (plan.program.is_plain())
    return Diagnostic{.kind = ErrorKind::kOverBudget,
                      .message = fmt::format(
                          "the function needs an arena of {} bytes, more than the {} of --max-ram",
                          plan.arena_bytes, max_ram),
                      .hint = "smaller sizes with --dim and a smaller --threads-max need less"};
  const double share = static_cast<double>(plan.kv.bytes) / static_cast<double>(plan.arena_bytes);
  const ShardOption& shard = plan.options.shard;
  const std::string arena =
      shard.count > 1 ? fmt::format("the arena of shard {} of {}", shard.index, shard.count)
                      : "the arena";
  return Diagnostic{
      .kind = ErrorKind::kOverBudget,
      .message = fmt::format("{} needs {} bytes, {} more than the {} allowed", arena,
                             plan.arena_bytes, plan.arena_bytes - max_ram, max_ram),
      .hint =
          fmt::format("{:.0f} % of it is the KV cache of {} tokens: a smaller --ctx{} shrinks it; "
                      "--chunk and --threads-max shrink the rest",
                      share * 100, std::uint64_t{plan.kv.blocks} * plan.kv.block,
                      plan.options.sequences > 1 ? " or --pool" : "")};
}

Warning beyond_training(std::string_view what, std::uint64_t tokens, std::uint32_t trained_ctx) {
  return {fmt::format("{} of {} tokens is longer than the {} that the model was trained for: what "
                      "it predicts past them is unreliable",
                      what, tokens, trained_ctx),
          {}};
}

std::vector<Warning> warnings(const Plan& plan) {
  const PlanOptions& options = plan.options;
  std::vector<Warning> found;
  if (plan.program.is_plain()) return found;  // no context and no cache
  if (options.trained_ctx != 0 && options.ctx > options.trained_ctx) {
    Warning warning = beyond_training("a context", options.ctx, options.trained_ctx);
    warning.hint = fmt::format("--ctx {} is the model's own", options.trained_ctx);
    found.push_back(std::move(warning));
  }
  if (plan.encoder && options.sources > options.sequences) {
    found.push_back({fmt::format("--sources {} is more than --sequences {}: a sequence attends to "
                                 "one source",
                                 options.sources, options.sequences),
                     fmt::format("--sequences {} has as many sequences", options.sources)});
  }
  // A compiled-in prompt is outside the pool; its last block is copied unless it is full.
  const std::uint64_t whole = round_up(options.ctx, plan.kv.block) / plan.kv.block;
  const std::uint64_t outside = plan.prompt.tokens / plan.kv.block;
  const std::uint64_t needed = whole - outside;
  const std::uint64_t usable = needed * options.sequences;
  if (plan.kv.blocks < needed) {
    found.push_back(
        {fmt::format("--pool {} holds {} tokens, and the context is {}: a sequence that has the "
                     "pool for itself finds it full before its context is",
                     plan.kv.blocks, std::uint64_t{plan.kv.blocks} * plan.kv.block, options.ctx),
         fmt::format("--pool {} holds one whole sequence, --ctx {} is what this pool holds", needed,
                     (plan.kv.blocks + outside) * plan.kv.block)});
  } else if (plan.kv.blocks > usable) {
    found.push_back(
        {fmt::format("--pool {} is more than {} of {} tokens can ever use", plan.kv.blocks,
                     options.sequences == 1 ? "the sequence"
                                            : fmt::format("{} sequences", options.sequences),
                     options.ctx),
         fmt::format("--pool {} is enough for all of them", usable)});
  }
  return found;
}

}  // namespace llmc::plan
