#pragma once

#include "llmc/quant/kv.h"
#include "llmc/quant/table.h"
#include "llmc/quant/weights.h"

/// Functions for all memory sizes that kernels need. The planner calls them at run time, kernels in
/// constant expressions. Sizes are in bytes, and multiples of 64 unless noted otherwise. `tokens`
/// is the maximum number of tokens of a stage (the chunk), `threads` the maximum number of worker
/// slots. The sizes are also sufficient for fewer tokens or threads.
namespace llmc {
inline namespace LLMC_ISA {

// ---- Number of packed rows of fused matrices; biases are f32[packed rows] in the same order ----

/// Plain matrices: rows in order.
constexpr size_t packed_rows(size_t n) {
  return round_up(n, kPanelRows);
}
/// Gate and up: 8 rows of gate, 8 of up, 8 of gate, …; the rows of each are padded to a multiple
/// of 8.
constexpr size_t packed_gated_rows(size_t intermediate) {
  return 2 * round_up(intermediate, kPanelRows);
}
/// QKV: all q heads, then k heads, then v heads; each head's rows are padded to a multiple of 8.
constexpr size_t packed_qkv_rows(size_t heads, size_t kv_heads, size_t head_dim) {
  return (heads + 2 * kv_heads) * round_up(head_dim, kPanelRows);
}

// ---- linear() ----

/// Maximum number of tokens processed per pass over a panel's weights (a strip).
inline constexpr size_t kTokenStrip = 128;
/// Number of adjacent panels that are computed before their results are stored.
inline constexpr size_t kPanelGroup = 4;
/// Number of weight streams that a product with few tokens reads concurrently, and maximum of
/// kWeightStreams (simd/vec.h), the number for one token.
inline constexpr size_t kStreams = 4;
/// Upper bound of kFewLimit (simd/vec.h) on all targets, which determines the size of result
/// buffers.
inline constexpr size_t kFewRows = 16;

/// Layout of quantized activations of `tokens` rows: i8 codes [pairs of blocks][2][tokens][32] (or
/// another layout, see kernels/quantize.h), then the sums of blocks i16 [pairs of
/// blocks][tokens][2], then f32 scales [superblocks][tokens].
constexpr size_t activation_code_bytes(size_t k, size_t tokens) {
  return round_up(round_up(block_count(k), 2) * tokens * kBlock, kAlignment);
}
constexpr size_t activation_sum_bytes(size_t k, size_t tokens) {
  return round_up(ceil_div(block_count(k), 2) * tokens * 2 * sizeof(int16_t), kAlignment);
}
constexpr size_t activation_scale_bytes(size_t k, size_t tokens) {
  return round_up(super_count(k) * tokens * sizeof(float), kAlignment);
}
constexpr size_t quantized_bytes(size_t k, size_t tokens) {
  return activation_code_bytes(k, tokens) + activation_sum_bytes(k, tokens) +
         activation_scale_bytes(k, tokens);
}
/// Returns the size of the prepared input of linear() (quantized rows, or normalized float rows)
/// and of a buffer for one row.
constexpr size_t linear_input_bytes(WeightKind kind, size_t k, size_t tokens) {
  return round_up(k * sizeof(float), kAlignment) +  // the buffer, used while a row is normalized
         (is_quantized(kind) ? quantized_bytes(k, tokens)
                             : tokens * round_up(k * sizeof(float), kAlignment));
}
/// Return the number of panels whose results an epilogue needs at the same time.
constexpr size_t gated_unit_panels() {
  return 2;
}
constexpr size_t qkv_unit_panels(size_t head_dim) {
  return ceil_div(head_dim, kPanelRows);
}
/// Returns the size of one worker's results before the epilogue: f32 [panels][strip][8], or
/// [streams][unit panels][tokens][8] for few tokens.
constexpr size_t linear_tile_bytes(size_t unit_panels, size_t tokens) {
  const size_t group = round_up(kPanelGroup > unit_panels ? kPanelGroup : unit_panels, unit_panels);
  const size_t strip = tokens < kTokenStrip ? tokens : kTokenStrip;
  const size_t few = kStreams * unit_panels * (tokens < kFewRows ? tokens : kFewRows);
  const size_t several = group * strip;
  return (several > few ? several : few) * kPanelRows * sizeof(float);
}
/// Returns the size of the work area of a linear() call. `unit_panels` is kUnitPanels of the
/// epilogue (kernels/epilogue.h): gated_unit_panels() for Gated, qkv_unit_panels(head_dim) for the
/// QKV epilogues, otherwise 1. `prepared`: whether products read copies of the rows
/// (LinearTask::kPrepared).
constexpr size_t linear_work_bytes(WeightKind kind, size_t k, size_t unit_panels, size_t tokens,
                                   size_t threads, bool prepared = true) {
  const size_t tiles = threads * linear_tile_bytes(unit_panels, tokens);
  if (!prepared) return tiles;
  // With one token, every worker prepares the input separately. With more, the input is prepared
  // once, but each worker needs a buffer for one normalized row.
  const size_t single = threads * linear_input_bytes(kind, k, 1);
  const size_t shared =
      linear_input_bytes(kind, k, tokens) + threads * round_up(k * sizeof(float), kAlignment);
  return (single > shared ? single : shared) + tiles;
}

// ---- linear_rows() ----

/// Minimum number of rows for which a worker reads all weights.
inline constexpr size_t kMinRowBlock = 24;
/// Returns the number of rows that a worker computes at a time if `threads` workers divide `rows`
/// rows of k columns among them. The inputs of a block fit the L2 cache.
constexpr size_t row_block(WeightKind kind, size_t k, size_t rows, size_t threads) {
  constexpr size_t kBytes = size_t{1} << 20;
  const size_t fits = kBytes / (k * (is_quantized(kind) ? 1 : sizeof(float)));
  const size_t most = fits < kTokenStrip ? fits : kTokenStrip, equal = ceil_div(rows, threads);
  const size_t block = equal < most ? equal : most;
  return block > kMinRowBlock ? block : kMinRowBlock;
}
/// Returns the size of the work area of linear_rows(). `prepared`: as of linear_work_bytes().
/// `in_blocks`: Source::kInBlocks.
constexpr size_t linear_rows_work_bytes(WeightKind kind, size_t k, size_t unit_panels, size_t rows,
                                        size_t threads, bool prepared, bool in_blocks) {
  const size_t few = kMinRowBlock * threads, shared = in_blocks && few < rows ? few : rows;
  size_t most = linear_work_bytes(kind, k, unit_panels, shared, threads, prepared);
  for (size_t t = 1; t <= threads; ++t) {
    const size_t block = row_block(kind, k, rows, t);
    const size_t divided = t * linear_work_bytes(kind, k, unit_panels, block, 1, prepared);
    if (divided > most) most = divided;
  }
  return most;
}

// ---- expert_linear() ----

/// Returns the size of the memory for one prepared row. An expert with n rows uses the memory of n
/// rows, in the layout of linear()'s prepared input for n tokens.
constexpr size_t expert_row_bytes(WeightKind kind, size_t k) {
  return is_quantized(kind) ? quantized_bytes(k, 1) : round_up(k * sizeof(float), kAlignment);
}
/// Returns the size of the u32 arrays of an ExpertOrder (kernels/experts.h) of `rows` rows: row
/// numbers sorted by expert, numbers and first rows of the experts that occur, and one counter per
/// expert.
constexpr size_t expert_order_bytes(size_t rows, size_t experts) {
  return round_up((rows + 3 * experts + 2) * sizeof(uint32_t), kAlignment);
}
/// Returns the size of the work area of an expert_linear() call with `slots` rows for each token.
constexpr size_t expert_work_bytes(WeightKind kind, size_t k, size_t slots, size_t experts,
                                   size_t tokens, size_t threads) {
  const size_t rows = tokens * slots;
  return expert_order_bytes(rows, experts) + rows * expert_row_bytes(kind, k) +
         threads * (linear_tile_bytes(1, rows) + round_up(k * sizeof(float), kAlignment));
}

// ---- Rotary embedding ----

/// Returns the size of the angle table of `tokens` tokens. Each row has rotary_dim / 2 cosines,
/// then rotary_dim / 2 sines, f32.
constexpr size_t rope_table_bytes(size_t rotary_dim, size_t tokens) {
  return round_up(tokens * rotary_dim * sizeof(float), kAlignment);
}

// ---- KV blocks ----

/// Returns the size of the keys and values of one layer of a block (quant/kv.h).
constexpr size_t kv_layer_bytes(size_t kv_heads, size_t head_dim, size_t block,
                                KvFormats formats = {}) {
  return kv_key_bytes(formats.keys, kv_heads, head_dim, block) +
         kv_value_bytes(formats.values, kv_heads, head_dim, block);
}
/// Returns the size of a token in a saved state, not rounded up: keys and values of every layer,
/// with their scales, without padding.
constexpr size_t kv_token_bytes(size_t layers, size_t kv_heads, size_t head_dim,
                                KvFormats formats = {}) {
  const size_t keys = head_dim * kv_number_bytes(formats.keys) +
                      (kv_has_scale(formats.keys) ? 2 * sizeof(float) : 0);
  const size_t values = head_dim * kv_number_bytes(formats.values) +
                        (kv_has_scale(formats.values) ? sizeof(float) : 0);
  return layers * kv_heads * (keys + values);
}
/// Returns the size of the first part of a block: token ids i32[block] and mirostat's states
/// f32[block].
constexpr size_t kv_tokens_bytes(size_t block) {
  return round_up(block * (sizeof(int32_t) + sizeof(float)), kAlignment);
}
/// Returns the size of a block: kv_tokens_bytes(), then keys and values of every layer.
constexpr size_t kv_block_bytes(size_t layers, size_t kv_heads, size_t head_dim, size_t block,
                                KvFormats formats = {}) {
  return kv_tokens_bytes(block) + layers * kv_layer_bytes(kv_heads, head_dim, block, formats);
}

// ---- attention() ----

/// Number of tokens per softmax step (tile), and per split of the cache. Both are aligned to
/// position 0, so that the order of a query's arithmetic depends only on its position.
inline constexpr size_t kAttentionTile = 64;
inline constexpr size_t kAttentionSplit = 512;
/// Number of query rows (tokens x query heads per KV head) per pass over K and V. With head_dim 64,
/// a tile of K and V and the states of the rows fit in an L1 cache of 48 KB.
inline constexpr size_t kAttentionRows = 24;
/// Maximum number of tokens of a run for which the splits of the cache are distributed over the
/// workers.
inline constexpr size_t kSplitTokens = 4;

/// Returns the size of one layer of the state of an encoded source with at most `rows` rows.
constexpr size_t source_layer_bytes(size_t kv_heads, size_t head_dim, size_t rows,
                                    KvFormats formats) {
  return kv_heads * ceil_div(rows, kAttentionTile) *
         kv_layer_bytes(1, head_dim, kAttentionTile, formats);
}
/// Returns the size of the state of one query row: output f32[padded dim], then maximum and sum
/// (f32[16]).
constexpr size_t attention_state_bytes(size_t head_dim) {
  return round_up(padded_dim(head_dim) * sizeof(float), kAlignment) + kAlignment;
}
constexpr size_t attention_token_group(size_t heads, size_t kv_heads) {
  const size_t group = heads / kv_heads;
  return group >= kAttentionRows ? 1 : kAttentionRows / group;
}
/// Returns the size of the copy of a tile's keys and values as f32, which several rows share; 0 if
/// the cache stores both as f32.
constexpr size_t attention_widened_bytes(size_t head_dim, KvFormats formats) {
  if (formats == KvFormats{}) return 0;
  return 2 * kAttentionTile * padded_dim(head_dim) * sizeof(float);
}
/// Returns the size of one worker's memory: for each row, two states, the scaled query and a tile
/// of probabilities; then attention_widened_bytes().
constexpr size_t attention_slot_bytes(size_t heads, size_t kv_heads, size_t head_dim,
                                      KvFormats formats = {}) {
  const size_t rows = attention_token_group(heads, kv_heads) * (heads / kv_heads);
  return rows * (2 * attention_state_bytes(head_dim) +
                 round_up(padded_dim(head_dim) * sizeof(float), kAlignment) +
                 kAttentionTile * sizeof(float)) +
         attention_widened_bytes(head_dim, formats);
}
/// Returns the size of the work area of attention() for a cache of at most `context` tokens.
constexpr size_t attention_work_bytes(size_t heads, size_t kv_heads, size_t head_dim,
                                      size_t context, size_t tokens, size_t threads,
                                      KvFormats formats = {}) {
  const size_t split_tokens = tokens < kSplitTokens ? tokens : kSplitTokens;
  return threads * attention_slot_bytes(heads, kv_heads, head_dim, formats) +
         ceil_div(context, kAttentionSplit) * split_tokens * heads *
             attention_state_bytes(head_dim);
}

}  // namespace LLMC_ISA
}  // namespace llmc
