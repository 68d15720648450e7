#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/kv_format.h"
#include "compiler/plan/memory.h"
#include "compiler/plan/program.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Every byte an emitted model will use, known before anything is compiled.
namespace llmc::plan {

/// Largest values of the options. The context: positions whose sine and cosine the kernels know
/// (llmc/math.h).
inline constexpr std::uint32_t kMaxContext = 1u << 22, kMaxBlock = 1u << 16, kMaxChunk = 4096,
                               kMaxThreads = 256, kMaxSequences = 1u << 16, kMaxBatch = kMaxChunk,
                               kMaxPool = 1u << 30;

struct PlanOptions {
  const target::Target* target = nullptr;
  std::string name;  // a valid C identifier (emit/names.h)
  std::uint32_t ctx = 2048, block = 32, chunk = 32, threads_max = 8;
  /// Most sequences of a session; most of them stepped together, and rows of one head.
  std::uint32_t sequences = 1, batch = 1;
  /// Blocks that all sequences share; 0: as many as all of them need with a full context.
  std::uint32_t pool = 0;
  KvFormats kv = {};        // what keys and values are kept in
  bool contiguous = false;  // one block holds a whole context; `block` is not looked at
  /// `ctx` was asked for: an error if the model's position table is shorter. Otherwise the context
  /// is at most `trained_ctx`, at least `ctx_needed`, and ends where the table does.
  bool ctx_given = false;
  std::uint32_t trained_ctx = 0;  // tokens that the model was trained for; 0: unknown
  std::uint32_t ctx_needed = 0;   // tokens that need room; 0: none
  DimRanges open_dims = {};       // of a plain graph: ranges of symbols in its inputs' shapes
  bool embed_weights = true;
  /// Said in plan.json for `llmc run` on a bundle; all may be empty.
  std::string tokenizer_file, tokenizer_kind, prompt_template;
  std::string tokenizer_refused;       // why there is none, if the model has one
  std::int64_t bos_id = -1;            // the id a prompt starts with; -1: none is known
  std::vector<std::int64_t> stop_ids;  // end a text
  std::uint64_t vocabulary_hash = 0;   // llmc_model's; 0: no tokenizer
  /// Of the grammar that is compiled in: "gbnf" or "json-schema", and its tables; 0: there is none.
  std::string grammar_kind;
  std::uint64_t grammar_bytes = 0;
  /// Tokens that sequences begin with, computed when the model is compiled; and the file they come
  /// from, for messages.
  std::vector<std::int32_t> prompt;
  std::string prompt_source;
  /// Said in plan.json for `llmc verify` on a bundle: the weight format that was asked for, and the
  /// hashes that are stored with the model for it.
  std::string quant;
  std::map<std::string, std::string> golden;
};

/// The prompt's read-only data: its blocks of the cache, then f32[hidden], the last layer's row of
/// its last token.
struct PromptPlan {
  std::uint32_t tokens = 0, blocks = 0;       // 0: no prompt
  std::uint64_t blocks_bytes = 0, bytes = 0;  // of the blocks; with the row, a multiple of 64
  std::uint64_t hash = 0;                     // xxh64 of the data; 0: not computed yet
};

struct KvPlan {
  std::uint32_t layers = 0, block = 0, blocks = 0;  // blocks: of the pool
  std::uint64_t kv_heads = 0, head_dim = 0;
  std::uint64_t layer_bytes = 0, block_bytes = 0, bytes = 0;  // per layer of a block, block, pool

  /// A token's part of a block.
  std::uint64_t token_bytes() const { return block == 0 ? 0 : block_bytes / block; }
};

struct Plan {
  PlanOptions options;
  Program program;  // weights with their offsets
  MemoryPlan memory;
  KvPlan kv;
  PromptPlan prompt;

  std::uint64_t weights_bytes = 0;
  std::uint64_t weights_per_token_bytes =
      0;                          // read by a generation step: all but unused table rows
  std::uint64_t parameters = 0;   // numbers in the model's weights
  std::uint64_t arena_bytes = 0;  // everything llmc_init wants: session, KV, scratch, …
  std::uint64_t code_bytes = 0;   // of the archive's text and tables without weights
  bool code_is_estimate = true;

  /// Bytes of RAM: the arena, and the weights unless they can stay in flash or a mapped file.
  std::uint64_t ram_bytes() const { return arena_bytes; }
};

/// Returns the tokens of context as far as the options decide them: a position table of the model
/// may end it earlier.
std::uint32_t context_of(const PlanOptions& options);

/// Errors: as lower(); kUsage for options out of range or a context longer than the model's
/// position table; kBadInput for a prompt that leaves no room in the context, or has a token that
/// the model does not know.
Result<Plan> make_plan(const ir::Graph& stages, const PlanOptions& options);

/// Plans a plain graph (lower_plain): of the options, target, name and embed_weights are used.
Result<Plan> make_plain_plan(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                             const PlanOptions& options);

/// kOverBudget when the plan needs more RAM than `max_ram` bytes (0: no limit), naming what could
/// be made smaller.
Status check_budget(const Plan& plan, std::uint64_t max_ram);

/// What can hardly be meant, for people: a message and what to do.
struct Warning {
  std::string message, hint;
};
/// Warning about `tokens` of context for a model that was trained for `trained_ctx` of them.
/// `what`: "a context", "a window".
Warning beyond_training(std::string_view what, std::uint64_t tokens, std::uint32_t trained_ctx);
std::vector<Warning> warnings(const Plan& plan);

/// Content of NAME.plan.json: sizes, offsets, hashes. `weights_hash`: xxh64 of the weights, 16 hex
/// digits, or empty when they are not written yet. Same plan, same text.
std::string to_json(const Plan& plan, std::string_view weights_hash);

inline constexpr std::string_view kNumericsVersion = "1";

}  // namespace llmc::plan
