#pragma once

#include "llmc/quant/coded.h"
#include "llmc/quant/f16.h"
#include "llmc/quant/f32.h"
#include "llmc/quant/kv.h"
#include "llmc/quant/q4.h"
#include "llmc/quant/q8.h"
#include "llmc/quant/table.h"

/// Every size the kernels need, as plain functions: the planner calls them at run time, the kernels
/// in constant expressions. All results are multiples of 64 bytes unless said otherwise.
/// `tokens` is the largest number of tokens of one stage (the chunk), `threads` the largest number
/// of worker slots; what is enough for them is enough for fewer.
namespace llmc {
inline namespace LLMC_ISA {

/// The values from kCoded on are coded formats: coded_weight(format). kQ6 is the one of them
/// that is made from floats.
enum class WeightKind : uint16_t {
  kF32,
  kF16,
  kQ8,
  kQ4,
  kCoded = kFirstCoded,
  kQ6 = coded_number(kSixBits)
};

constexpr WeightKind coded_weight(CodedFormat f) {
  return static_cast<WeightKind>(coded_number(f));
}
constexpr bool is_coded(WeightKind kind) {
  return kind >= WeightKind::kCoded;
}
/// Of a coded kind, or of kQ8.
constexpr CodedFormat coded_format(WeightKind kind) {
  return is_coded(kind) ? coded_format(static_cast<uint16_t>(kind)) : CodedFormat{};
}
/// Whether products read activations as int8.
constexpr bool is_quantized(WeightKind kind) {
  return kind == WeightKind::kQ8 || kind == WeightKind::kQ4 || is_coded(kind);
}

constexpr size_t weight_panel_bytes(WeightKind kind, size_t k) {
  if (is_coded(kind)) return coded_panel_bytes(coded_format(kind), k);
  switch (kind) {
    case WeightKind::kF32:
      return f32_panel_bytes(k);
    case WeightKind::kF16:
      return f16_panel_bytes(k);
    case WeightKind::kQ8:
      return q8_panel_bytes(k);
    default:
      return q4_panel_bytes(k);
  }
}
/// Bytes of a packed matrix of `rows` packed rows (see packed_*_rows) and `k` columns.
constexpr size_t weight_bytes(WeightKind kind, size_t rows, size_t k) {
  return panel_count(rows) * weight_panel_bytes(kind, k);
}

// ---- How many packed rows a fused matrix has; biases are f32[packed rows] in the same order
// ------

/// Plain: rows in order.
constexpr size_t packed_rows(size_t n) {
  return round_up(n, kPanelRows);
}
/// SwiGLU: 8 rows of gate, 8 of up, 8 of gate, …; each of the two padded to 8 rows.
constexpr size_t packed_gated_rows(size_t intermediate) {
  return 2 * round_up(intermediate, kPanelRows);
}
/// QKV: all q heads, then k heads, then v heads; each head's rows padded to 8.
constexpr size_t packed_qkv_rows(size_t heads, size_t kv_heads, size_t head_dim) {
  return (heads + 2 * kv_heads) * round_up(head_dim, kPanelRows);
}

// ---- linear()
// ------------------------------------------------------------------------------------

/// Tokens that one pass over a panel's weights serves.
inline constexpr size_t kTokenStrip = 128;
/// Panels computed before their results are stored.
inline constexpr size_t kPanelGroup = 4;
/// Places from which one token's product reads weights at the same time.
inline constexpr size_t kStreams = 4;

/// A quantized activation of `tokens` rows: i8 codes [pairs of blocks][2][tokens][32] (or as
/// kernels/quantize.h says), then sums of each two blocks i16 [pairs][tokens][2], then f32 scales
/// [superblocks][tokens].
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
/// What linear() keeps of its input: quantized rows, or normalised float rows.
constexpr size_t linear_input_bytes(WeightKind kind, size_t k, size_t tokens) {
  return round_up(k * sizeof(float), kAlignment) +  // one row being normalised
         (is_quantized(kind) ? quantized_bytes(k, tokens)
                             : tokens * round_up(k * sizeof(float), kAlignment));
}
/// Panels whose results an epilogue needs at the same time.
constexpr size_t gated_unit_panels() {
  return 2;
}
constexpr size_t qkv_unit_panels(size_t head_dim) {
  return ceil_div(head_dim, kPanelRows);
}
/// One worker's results waiting for the epilogue: [panels][strip][8] f32, or for one token
/// [streams][unit][8].
constexpr size_t linear_tile_bytes(size_t unit_panels, size_t tokens) {
  const size_t group = round_up(kPanelGroup > unit_panels ? kPanelGroup : unit_panels, unit_panels);
  const size_t strip = tokens < kTokenStrip ? tokens : kTokenStrip;
  const size_t several = group * strip, single = kStreams * unit_panels;
  return (several > single ? several : single) * kPanelRows * sizeof(float);
}
/// Work area of a linear() call. `unit_panels`: 1 for Store and AddTo, gated_unit_panels(),
/// qkv_unit_panels(head_dim).
constexpr size_t linear_work_bytes(WeightKind kind, size_t k, size_t unit_panels, size_t tokens,
                                   size_t threads) {
  // One token: every worker prepares the input for itself. More: it is prepared once, but each
  // worker has a row of its own to normalise in.
  const size_t single = threads * linear_input_bytes(kind, k, 1);
  const size_t shared =
      linear_input_bytes(kind, k, tokens) + threads * round_up(k * sizeof(float), kAlignment);
  return (single > shared ? single : shared) + threads * linear_tile_bytes(unit_panels, tokens);
}

// ---- Rotary embedding
// ----------------------------------------------------------------------------

/// cos then sin of a token: f32[rotary_dim / 2] each. Size of `tokens` such rows.
constexpr size_t rope_table_bytes(size_t rotary_dim, size_t tokens) {
  return round_up(tokens * rotary_dim * sizeof(float), kAlignment);
}

// ---- KV blocks
// -----------------------------------------------------------------------------------

/// Keys, then values of one layer of a block (quant/kv.h).
constexpr size_t kv_layer_bytes(size_t kv_heads, size_t head_dim, size_t block,
                                KvFormats formats = {}) {
  return kv_key_bytes(formats.keys, kv_heads, head_dim, block) +
         kv_value_bytes(formats.values, kv_heads, head_dim, block);
}
/// A token in a saved state: every layer's K and V, with their scales.
constexpr size_t kv_token_bytes(size_t layers, size_t kv_heads, size_t head_dim,
                                KvFormats formats = {}) {
  const size_t keys = head_dim * kv_number_bytes(formats.keys) +
                      (kv_has_scale(formats.keys) ? 2 * sizeof(float) : 0);
  const size_t values = head_dim * kv_number_bytes(formats.values) +
                        (kv_has_scale(formats.values) ? sizeof(float) : 0);
  return layers * kv_heads * (keys + values);
}
/// What a block begins with: its tokens, i32[block], and the sampler's states, f32[block].
constexpr size_t kv_tokens_bytes(size_t block) {
  return round_up(block * (sizeof(int32_t) + sizeof(float)), kAlignment);
}
/// A block: its tokens, then every layer's K and V of them.
constexpr size_t kv_block_bytes(size_t layers, size_t kv_heads, size_t head_dim, size_t block,
                                KvFormats formats = {}) {
  return kv_tokens_bytes(block) + layers * kv_layer_bytes(kv_heads, head_dim, block, formats);
}

// ---- attention()
// ---------------------------------------------------------------------------------

/// Tokens of one softmax step, and of one split of the cache; both counted from position 0, so that
/// the arithmetic of a query depends on its position alone.
inline constexpr size_t kAttentionTile = 64;
inline constexpr size_t kAttentionSplit = 512;
/// Query rows (tokens x heads of a group) that share one pass over K and V: a tile of both and the
/// rows' states fit a first-level cache of 48 KB at head_dim 64.
inline constexpr size_t kAttentionRows = 24;
/// Up to so many new tokens the splits of the cache are spread over the workers.
inline constexpr size_t kSplitTokens = 4;

/// Running state of one query row: output f32[padded dim], then maximum and sum (f32[16]).
constexpr size_t attention_state_bytes(size_t head_dim) {
  return round_up(padded_dim(head_dim) * sizeof(float), kAlignment) + kAlignment;
}
constexpr size_t attention_token_group(size_t heads, size_t kv_heads) {
  const size_t group = heads / kv_heads;
  return group >= kAttentionRows ? 1 : kAttentionRows / group;
}
/// A tile's keys and values as floats, for several rows; nothing where the cache has floats.
constexpr size_t attention_widened_bytes(size_t head_dim, KvFormats formats) {
  if (formats == KvFormats{}) return 0;
  return 2 * kAttentionTile * padded_dim(head_dim) * sizeof(float);
}
/// One worker: two states, the scaled query and a tile of probabilities for each row; then a tile
/// of the cache as floats.
constexpr size_t attention_slot_bytes(size_t heads, size_t kv_heads, size_t head_dim,
                                      KvFormats formats = {}) {
  const size_t rows = attention_token_group(heads, kv_heads) * (heads / kv_heads);
  return rows * (2 * attention_state_bytes(head_dim) +
                 round_up(padded_dim(head_dim) * sizeof(float), kAlignment) +
                 kAttentionTile * sizeof(float)) +
         attention_widened_bytes(head_dim, formats);
}
/// Work area of an attention() call over a cache of at most `context` tokens.
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
