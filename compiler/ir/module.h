#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

/// The compiled unit: graphs, values that outlive a call, and the purpose of inputs and outputs.
namespace llmc::ir {

/// Names of entries.
inline constexpr std::string_view kForward = "forward";  // a decoder: tokens and past to logits
inline constexpr std::string_view kRun = "run";  // a plain graph, its own inputs and outputs

/// One graph that the caller or the runtime runs.
struct Entry {
  std::string name;
  Graph graph;
};

/// A value that outlives a call and belongs to a sequence.
enum class StateKind : std::uint8_t {
  /// Keys and values of all earlier tokens: f32[2, 1, past, kv_heads, head_dim], or heads first.
  /// A call appends its tokens, so dropping the last ones rewinds the state.
  kAttentionCache,
};

/// One state. Inputs and outputs are named, because passes keep their names but renumber values.
struct State {
  StateKind kind = StateKind::kAttentionCache;
  std::int64_t layer = 0;  // in the order in which the graph attends
  std::string input;       // graph input with the state before the call
  std::string output;      // graph output with the state after it
  CacheLayout layout = CacheLayout::kSequenceFirst;
  std::int64_t kv_heads = 0, head_dim = 0;
};

/// Names of the other inputs and outputs of kForward by purpose; empty: there is no such value. A
/// plain graph binds none.
struct Interface {
  std::string token_ids;  // i64[seq]
  std::string mask;       // f32[1, 1, seq, past + seq], added to the scores
  std::string positions;  // i64[1, seq]
  std::string logits;     // f32[…, vocabulary]: of the last token, or a row for each token
  std::string hidden;     // f32[…, width], a row for each token: of a graph that ends before logits
};

/// A module owns its graphs; copies share the data of constants.
struct Module {
  std::vector<Entry> entries;
  std::vector<State> states;  // by layer
  Interface interface;

  /// The only entry.
  const Graph& graph() const { return entries.front().graph; }
  Graph& graph() { return entries.front().graph; }
  /// Whether it can generate text: it has token ids, logits and a cache.
  bool is_decoder() const { return !states.empty(); }
  /// The number of logits in a row; 0 for a plain graph.
  std::int64_t vocabulary() const;
};

/// A module of one plain graph.
Module plain_module(Graph graph);

/// Checks that the names of states and interface are inputs and outputs of the entry, that no value
/// has two roles, and that types are those documented above. kInternal with the first violation.
Status verify_interface(const Module& module);

}  // namespace llmc::ir
