#include "compiler/plan/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/support/check.h"

namespace llmc::plan {
namespace {

/// Part of the program that is never cut: a stage outside loops, or one iteration of a loop.
struct Unit {
  std::size_t stage = 0;                       // in Program::forward
  std::uint32_t iteration = 0;                 // of a loop
  std::uint32_t first_layer = 0, layers = 0;   // of the cache
  std::uint64_t cost = 0;                      // what the cuts balance
  bool positional = false;                     // depends on positions alone
  std::set<BufferId> reads = {}, writes = {};  // reads: only what the unit does not write before
  std::set<std::uint32_t> caches_read = {};
};

const LoopStage* loop_of(const Program& program, const Unit& unit) {
  return std::get_if<LoopStage>(&program.forward[unit.stage].op);
}

/// Returns a pointer to the cache layer of a stage, relative to its loop's iteration; nullptr if
/// the stage does not use the cache.
std::uint32_t* cache_layer(Stage& stage) {
  if (auto* s = std::get_if<QkvStage>(&stage.op)) return &s->layer;
  if (auto* s = std::get_if<QkvFinishStage>(&stage.op)) return &s->projection.layer;
  if (auto* s = std::get_if<KvStoreStage>(&stage.op)) return &s->layer;
  if (auto* s = std::get_if<AttentionStage>(&stage.op)) return &s->layer;
  return nullptr;
}

class Cutter {
 public:
  Cutter(const Program& program, const ShardOption& shard, std::uint64_t cache_bytes)
      : program_(program), shard_(shard), cache_bytes_(cache_bytes) {
    find_units();
    find_positional_units();
  }

  Result<Program> run() {
    LLMC_TRY(const std::vector<std::size_t> cuts, choose_cuts());
    const std::size_t begin = shard_.is_first() ? 0 : cuts[shard_.index - 1];
    const std::size_t end = shard_.is_last() ? units_.size() : cuts[shard_.index];
    return build(begin, end);
  }

 private:
  void add(Unit& unit, const Stage& stage, std::uint32_t base, const LoopStage* loop) {
    const Access used = access(stage);
    for (const BufferId id : used.reads)
      if (id.exists() && !unit.writes.contains(id)) unit.reads.insert(id);
    for (const BufferId id : used.writes)
      if (id.exists()) unit.writes.insert(id);
    Stage copy = stage;
    if (const std::uint32_t* layer = cache_layer(copy)) {
      if (std::holds_alternative<AttentionStage>(stage.op)) {
        unit.caches_read.insert(base + *layer);
      } else if (loop == nullptr) {
        unit.first_layer = *layer;
        unit.layers = 1;
      }
    }
    for_each_weight(copy, [&](WeightRef& ref) {
      if (!ref.exists()) return;
      const PackedWeight& weight = weight_of(program_, ref, loop, unit.iteration);
      if (shard_.by_memory || weight.use == WeightUse::kMatrix) unit.cost += weight.bytes;
    });
  }
  void add_cache(Unit& unit) const {
    if (shard_.by_memory) unit.cost += unit.layers * cache_bytes_;
  }
  void find_units() {
    for (std::size_t i = 0; i < program_.forward.size(); ++i) {
      const Stage& stage = program_.forward[i];
      const auto* loop = std::get_if<LoopStage>(&stage.op);
      if (loop == nullptr) {
        Unit unit{.stage = i};
        add(unit, stage, 0, nullptr);
        add_cache(unit);
        units_.push_back(std::move(unit));
        continue;
      }
      for (std::uint32_t pass = 0; pass < loop->count; ++pass) {
        Unit unit{.stage = i,
                  .iteration = pass,
                  .first_layer = loop->first_layer + pass * loop->layers_per_pass,
                  .layers = loop->layers_per_pass};
        for (const Stage& inner : loop->body) add(unit, inner, unit.first_layer, loop);
        add_cache(unit);
        units_.push_back(std::move(unit));
      }
    }
  }
  /// Finds the units that depend only on positions, directly or through other such units.
  void find_positional_units() {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      Unit& unit = units_[i];
      const auto* embedding = std::get_if<EmbeddingStage>(&program_.forward[unit.stage].op);
      unit.positional = loop_of(program_, unit) == nullptr && unit.layers == 0 &&
                        unit.caches_read.empty() &&
                        (embedding == nullptr || embedding->by_position) &&
                        std::ranges::all_of(unit.reads, [&](BufferId id) {
                          const Place place = program_.buffers[id.index].place;
                          return place == Place::kPositions || place == Place::kLastPositions ||
                                 place == Place::kWeight || positional_before(id, i);
                        });
      for (const BufferId id : unit.writes)
        (unit.positional ? first_positional_ : first_other_).try_emplace(id, i);
    }
  }
  /// Returns whether a buffer is written before unit `at`, and until then only by positional units.
  bool positional_before(BufferId id, std::size_t at) const {
    const auto positional = first_positional_.find(id), other = first_other_.find(id);
    return positional != first_positional_.end() && positional->second < at &&
           (other == first_other_.end() || other->second >= at);
  }

  /// Returns the only buffer whose rows cross a cut before unit `at`; absent if the cut is not
  /// possible.
  BufferId crossing(std::size_t at) const {
    std::set<BufferId> before, live;
    for (std::size_t i = 0; i < at; ++i)
      before.insert(units_[i].writes.begin(), units_[i].writes.end());
    const std::uint32_t layers = layers_before(at);
    std::set<BufferId> after;
    for (std::size_t i = at; i < units_.size(); ++i) {
      for (const BufferId id : units_[i].reads)
        if (before.contains(id) && !after.contains(id) && !positional_before(id, at))
          live.insert(id);
      after.insert(units_[i].writes.begin(), units_[i].writes.end());
      // Layers that share the cache of an earlier one stay together.
      if (units_[i].layers > 0 && units_[i].first_layer < layers) return {};
      for (const std::uint32_t layer : units_[i].caches_read)
        if (layer < layers) return {};
      for (const BufferId id : units_[i].reads)
        if (program_.buffers[id.index].place == Place::kTokens) return {};
      const auto* table = std::get_if<EmbeddingStage>(&program_.forward[units_[i].stage].op);
      if (table != nullptr && !table->by_position) return {};
    }
    if (live.size() != 1 || layers == 0 || layers == program_.layers) return {};
    const Buffer& buffer = program_.buffers[live.begin()->index];
    const bool rows = buffer.place == Place::kArena && !buffer.one_row &&
                      buffer.element == ir::ElementType::kF32 &&
                      buffer.width == program_.hidden_width;
    return rows ? *live.begin() : BufferId{};
  }

  /// Chooses the cuts so that the largest cost of a shard is as small as possible.
  Result<std::vector<std::size_t>> choose_cuts() const {
    std::vector<std::size_t> possible{0};
    for (std::size_t at = 1; at < units_.size(); ++at) {
      if (!crossing(at).exists()) continue;
      // Of several cuts after the same layers, keeps the last one, which is directly before the
      // next layer.
      if (possible.size() > 1 && layers_before(possible.back()) == layers_before(at))
        possible.pop_back();
      possible.push_back(at);
    }
    possible.push_back(units_.size());
    const std::size_t most = possible.size() - 1;
    if (shard_.count > most)
      return usage_error(
          fmt::format("the model cannot be cut into {} shards of whole layers", shard_.count),
          most < 2 ? "between its layers more than one row of a token is needed"
                   : fmt::format("--stages takes 2 to {}", most));
    std::vector<std::uint64_t> sums{0};
    for (const Unit& unit : units_) sums.push_back(sums.back() + unit.cost);
    if (shard_.by_memory) sums.back() += head_bytes();
    const auto cost = [&](std::size_t from, std::size_t to) {
      return sums[possible[to]] - sums[possible[from]];
    };
    // best[n][i]: least possible maximum cost of n shards that end at possible[i].
    // last[n][i]: index in `possible` at which the last of these shards begins.
    constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
    std::vector best(shard_.count + 1, std::vector<std::uint64_t>(possible.size(), kNever));
    std::vector last(shard_.count + 1, std::vector<std::size_t>(possible.size()));
    best[0][0] = 0;
    for (std::size_t n = 1; n <= shard_.count; ++n) {
      for (std::size_t to = n; to < possible.size(); ++to) {
        for (std::size_t from = n - 1; from < to; ++from) {
          if (best[n - 1][from] == kNever) continue;
          const std::uint64_t largest = std::max(best[n - 1][from], cost(from, to));
          if (largest >= best[n][to]) continue;
          best[n][to] = largest;
          last[n][to] = from;
        }
      }
    }
    std::vector<std::size_t> cuts(shard_.count - 1);
    std::size_t to = possible.size() - 1;
    for (std::size_t n = shard_.count; n > 1; --n) cuts[n - 2] = possible[to = last[n][to]];
    return cuts;
  }

  Result<Program> build(std::size_t begin, std::size_t end) {
    Program shard = program_;
    shard.forward.clear();
    const std::uint32_t first_layer = layers_before(begin);
    shard.layers = layers_before(end) - first_layer;
    if (begin > 0) {
      // Adds the positional stages whose results are read, from the last to the first.
      std::set<BufferId> wanted;
      for (std::size_t i = begin; i < end; ++i)
        wanted.insert(units_[i].reads.begin(), units_[i].reads.end());
      for (std::size_t i = begin; i-- > 0;) {
        const Unit& unit = units_[i];
        const bool needed = std::ranges::any_of(unit.writes, [&](BufferId id) {
          return wanted.contains(id) && positional_before(id, begin);
        });
        if (!needed) continue;
        wanted.insert(unit.reads.begin(), unit.reads.end());
        shard.forward.insert(shard.forward.begin(), program_.forward[unit.stage]);
      }
      Stage rows;
      rows.op = InputRowsStage{.out = crossing(begin), .width = program_.hidden_width};
      rows.comment = fmt::format("rows of the layer before: [tokens, {}]", program_.hidden_width);
      shard.forward.push_back(std::move(rows));
    }
    for (std::size_t i = begin; i < end;) {
      const Unit& unit = units_[i];
      Stage stage = program_.forward[unit.stage];
      auto* loop = std::get_if<LoopStage>(&stage.op);
      if (loop == nullptr) {
        if (std::uint32_t* layer = cache_layer(stage)) *layer -= first_layer;
        ++i;
      } else {
        std::uint32_t passes = 0;
        while (i < end && units_[i].stage == unit.stage) ++passes, ++i;
        for (LoopStage::Field& field : loop->fields) {
          const auto from = field.weights.begin() + unit.iteration;
          field.weights = std::vector(from, from + passes);
        }
        loop->count = passes;
        loop->first_layer = unit.first_layer - first_layer;
      }
      shard.forward.push_back(std::move(stage));
    }
    if (end < units_.size()) {
      shard.head.clear();
      shard.hidden = crossing(end);
      shard.row = shard.logits = {};
    }
    LLMC_RETURN_IF_ERROR(keep_used_weights(shard));
    return shard;
  }
  /// Returns the bytes of the head's weights.
  std::uint64_t head_bytes() const {
    std::uint64_t bytes = 0;
    for (Stage stage : program_.head)
      for_each_weight(stage, [&](WeightRef& ref) {
        if (ref.exists()) bytes += weight_of(program_, ref, nullptr).bytes;
      });
    return bytes;
  }
  std::uint32_t layers_before(std::size_t end) const {
    std::uint32_t layers = 0;
    for (std::size_t i = 0; i < end; ++i)
      layers = std::max(layers, units_[i].first_layer + units_[i].layers);
    return layers;
  }

  /// Removes the weights to which no stage refers, and renumbers and lays out the others.
  static Status keep_used_weights(Program& shard) {
    std::map<std::uint32_t, std::uint32_t> numbers;
    std::set<BufferId> visited;
    const auto for_each_index = [&](const std::function<void(std::uint32_t&)>& f) {
      const auto of_stage = [&](Stage& stage) {
        for_each_weight(stage, [&](WeightRef& ref) {
          if (ref.exists() && !ref.per_layer) f(ref.index);
        });
        const Access used = access(stage);
        for (const BufferId id : used.reads) {
          if (!id.exists()) continue;
          WeightRef& ref = shard.buffers[id.index].weight;
          if (ref.exists() && !ref.per_layer && visited.insert(id).second) f(ref.index);
        }
      };
      visited.clear();
      for (auto* stages : {&shard.forward, &shard.head}) {
        for (Stage& stage : *stages) {
          of_stage(stage);
          auto* loop = std::get_if<LoopStage>(&stage.op);
          if (loop == nullptr) continue;
          for (LoopStage::Field& field : loop->fields)
            for (std::uint32_t& index : field.weights) f(index);
          for (Stage& inner : loop->body) of_stage(inner);
        }
      }
    };
    for_each_index([&](std::uint32_t& index) { numbers.emplace(index, 0); });
    std::vector<PackedWeight> kept;
    for (auto& [old, number] : numbers) {
      number = static_cast<std::uint32_t>(kept.size());
      kept.push_back(shard.weights[old]);
    }
    for_each_index([&](std::uint32_t& index) { index = numbers.at(index); });
    shard.weights = std::move(kept);
    LLMC_TRY(const std::uint64_t bytes, lay_out(shard.weights));
    (void)bytes;
    return ok_status();
  }

  const Program& program_;
  const ShardOption shard_;
  const std::uint64_t cache_bytes_;  // of a layer
  std::vector<Unit> units_;
  // First positional unit, and first other unit, that writes a buffer.
  std::map<BufferId, std::size_t> first_positional_, first_other_;
};

}  // namespace

Result<Program> cut_shard(const Program& program, const ShardOption& shard,
                          std::uint64_t cache_bytes) {
  LLMC_CHECK(shard.index < shard.count);
  const char* const reason = !program.states.empty() ? "it has recurrent states"
                             : program.sources > 0   ? "its layers attend to a source"
                                                     : nullptr;
  if (reason != nullptr)
    return Diagnostic{.kind = ErrorKind::kUnsupported,
                      .message = fmt::format("the model cannot be cut into shards: {}", reason),
                      .hint = "leave out --stages"};
  return Cutter(program, shard, cache_bytes).run();
}

}  // namespace llmc::plan
