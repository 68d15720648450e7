#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

/// The compiled unit: its graphs, and the values that outlive a call.
namespace llmc::ir {

/// What an entry computes. All entries but kForward are plain graphs: they have no states, and
/// their inputs and outputs are those of the graph.
enum class EntryKind : std::uint8_t {
  kForward,  // a decoder: token ids and cache to logits
  kEncode,   // a source to kSource states
  /// A decoder's media encoder, for images or audio. Its output, rows f32[…, width], replaces token
  /// embeddings in the decoder.
  kEncodeMedia,
  kRun,  // a graph with inputs and outputs of its own
};

/// One graph that the caller or the runtime runs.
struct Entry {
  EntryKind kind = EntryKind::kRun;
  Graph graph;
};

/// Kind of a value that outlives a call and belongs to a sequence.
enum class StateKind : std::uint8_t {
  /// Keys and values of all earlier tokens: f32[2, 1, past, kv_heads, head_dim], or heads first. A
  /// call appends its tokens. Dropping the last tokens rewinds the state.
  kAttentionCache,
  /// Keys and values of an encoder-decoder's encoded source: f32[2, kv_heads, rows, head_dim].
  /// kEncode computes that of layer i as its output i. kForward reads it as an input and does not
  /// change it. The only input of kEncode is token ids i64[source], or features f32[1, …]. In
  /// kForward, `rows` is the symbol `source`; in kEncode, it follows from the size of the input.
  kSource,
  /// A recurrent state of fixed size: f32[seq, …]. Row t of the input is the state before token t,
  /// row t of the output the state after it, so that row t of the input is row t - 1 of the output.
  /// All zeros before the first token. After the last tokens are dropped, the state must be
  /// computed again from the tokens before them.
  kRecurrent,
};

/// One state of a module. The input of kForward with the same kind and layer (InputKind in graph.h)
/// is the state before the call.
struct State {
  StateKind kind = StateKind::kAttentionCache;
  std::int64_t layer = 0;  // layers are numbered in execution order
  CacheLayout layout = CacheLayout::kSequenceFirst;
  std::int64_t kv_heads = 0, head_dim = 0;
};

/// A module owns its graphs; copies share the data of constants. The outputs of kForward are the
/// logits f32[…, vocabulary], one row for the last token or one row per token, and the states other
/// than kSource after the call, in the order of `states`.
struct Module {
  std::vector<Entry> entries;
  std::vector<State> states;  // by kind, then by layer

  /// Returns the graph of the first entry: kForward or kRun.
  const Graph& graph() const { return entries.front().graph; }
  Graph& graph() { return entries.front().graph; }
  /// Return the graph of kEncode or kEncodeMedia, or nullptr.
  const Graph* encoder() const { return entry(EntryKind::kEncode); }
  const Graph* media_encoder() const { return entry(EntryKind::kEncodeMedia); }
  /// Returns whether the module can generate text.
  bool is_decoder() const { return graph().is_decoder(); }
  /// Returns whether any state is kRecurrent. The graph then computes token by token: except for
  /// attention's cache, no value depends on another token's row.
  bool is_recurrent() const;
  /// Returns the number of logits of a decoder per token; 0 if the module is no decoder or the
  /// number is symbolic.
  std::int64_t vocabulary() const;

 private:
  const Graph* entry(EntryKind kind) const;
};

/// Returns a module whose only entry is the plain graph.
Module plain_module(Graph graph);

}  // namespace llmc::ir
