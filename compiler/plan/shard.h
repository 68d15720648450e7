#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/program.h"

/// Shards: consecutive layers of a decoder, each a library of its own for one of several machines.
namespace llmc::plan {

/// One of `count` shards; count 0: the whole model.
struct ShardOption {
  std::uint32_t index = 0, count = 0;
  /// Whether the cuts balance memory: all weights and the cache. Otherwise they balance time: the
  /// matrices of the layers.
  bool by_memory = false;

  bool is_first() const { return index == 0; }
  bool is_last() const { return count == 0 || index + 1 == count; }
};

/// Cuts the program of a whole decoder to one shard. The first shard has the embedding, the last
/// one the head. Every other shard begins with the rows between two layers, f32[tokens, hidden],
/// which its caller passes in place of embeddings; what depends on positions alone is computed in
/// every shard. All shards of a model have the same cuts. `cache_bytes`: bytes of a layer's cache,
/// for ShardOption::by_memory. Fails with kUsage if the model cannot be cut into so many shards,
/// and with kUnsupported if it has recurrent states or attends to a source.
Result<Program> cut_shard(const Program& program, const ShardOption& shard,
                          std::uint64_t cache_bytes);

/// Calls f for each weight that a stage refers to, except those of loop bodies.
void for_each_weight(Stage& stage, const std::function<void(WeightRef&)>& f);

}  // namespace llmc::plan
