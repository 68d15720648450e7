#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/program.h"

/// Shards: consecutive layers of a decoder, compiled to separate libraries for several machines.
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

/// Returns one shard of a decoder's program. The first shard has the embedding, the last one the
/// head. Every shard but the first reads the rows between two layers, f32[tokens, hidden], which
/// its caller passes in place of embeddings. Values that depend only on positions are computed in
/// every shard that reads them. All shards of a model have the same cuts. `cache_bytes` is the size
/// of a layer's cache in bytes, for ShardOption::by_memory. Fails with kUsage if the model cannot
/// be cut into `shard.count` shards, and with kUnsupported if it has recurrent states or attends to
/// a source.
Result<Program> cut_shard(const Program& program, const ShardOption& shard,
                          std::uint64_t cache_bytes);

/// Calls f for each WeightRef of a stage, even if it is absent. Excludes the stages of loop bodies
/// and the weights that loop nests read through buffers.
void for_each_weight(Stage& stage, const std::function<void(WeightRef&)>& f);

}  // namespace llmc::plan
