#include "compiler/plan/parts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "compiler/support/check.h"
#include "llmc/sizes.h"

namespace llmc::plan {
namespace {

constexpr std::string_view kPartNames[] = {"qkv",  "attention", "attention_out", "gate_up",
                                           "down", "head",      "rest"};
static_assert(std::size(kPartNames) == kParts);

bool is_attention(const Stage& stage) {
  return std::holds_alternative<AttentionStage>(stage.op) ||
         std::holds_alternative<KvStoreStage>(stage.op);
}

/// Returns for each stage whether its result reaches attention without another matrix product in
/// between.
std::vector<bool> feed_attention(const std::vector<Stage>& stages) {
  std::vector<bool> feeds(stages.size());
  std::map<BufferId, bool> wanted;  // whether the next reader of a buffer feeds attention or is it
  for (std::size_t i = stages.size(); i-- > 0;) {
    const Access used = access(stages[i]);
    for (const BufferId out : used.writes) {
      const auto at = wanted.find(out);
      feeds[i] = feeds[i] || (at != wanted.end() && at->second);
      if (at != wanted.end()) wanted.erase(at);
    }
    const bool product = std::holds_alternative<LinearStage>(stages[i].op) ||
                         std::holds_alternative<QkvStage>(stages[i].op);
    for (const BufferId in : used.reads)
      wanted[in] = is_attention(stages[i]) || (feeds[i] && !product);
  }
  return feeds;
}

/// The last stage that wrote a buffer, and its part.
struct Writer {
  std::size_t stage;
  Part part;
};
using Writers = std::map<BufferId, Writer>;

std::optional<Writer> writer_of(const Writers& writers, BufferId buffer) {
  const auto at = writers.find(buffer);
  return at == writers.end() ? std::nullopt : std::optional(at->second);
}

Part linear_part(const LinearStage& stage, const Writers& writers, bool feeds_attention) {
  using enum LinearStage::Epilogue;
  if (feeds_attention) return Part::kQkv;
  const auto source = writer_of(writers, stage.source);
  if (source && source->part == Part::kAttention) return Part::kAttentionOut;
  if (stage.epilogue == kAddTo || stage.epilogue == kAddStore) return Part::kDown;
  return source && source->part == Part::kGateUp ? Part::kDown : Part::kGateUp;
}

/// Returns the part of any stage other than a norm.
Part part_of(const Stage& stage, const Writers& writers, bool feeds_attention) {
  if (const auto* linear = std::get_if<LinearStage>(&stage.op))
    return linear_part(*linear, writers, feeds_attention);
  if (std::holds_alternative<AttentionStage>(stage.op) ||
      std::holds_alternative<CrossAttentionStage>(stage.op))
    return Part::kAttention;
  if (std::holds_alternative<GatedStage>(stage.op)) return Part::kGateUp;
  if (std::holds_alternative<QkvStage>(stage.op) ||
      std::holds_alternative<QkvFinishStage>(stage.op) ||
      std::holds_alternative<KvStoreStage>(stage.op) ||
      std::holds_alternative<SourceStoreStage>(stage.op) ||
      std::holds_alternative<RopeStage>(stage.op))
    return Part::kQkv;
  if (std::holds_alternative<EmbeddingStage>(stage.op) ||
      std::holds_alternative<InputRowsStage>(stage.op) ||
      std::holds_alternative<RopeAnglesStage>(stage.op) ||
      std::holds_alternative<LoopStage>(stage.op))
    return Part::kRest;
  // Elementwise: the part of its most recently written operand.
  std::optional<Writer> newest;
  for (const BufferId in : access(stage).reads) {
    const auto writer = writer_of(writers, in);
    if (writer && (!newest || writer->stage > newest->stage)) newest = writer;
  }
  return newest ? newest->part : Part::kRest;
}

class PartSizes {
 public:
  explicit PartSizes(const Program& program) : program_(program) {}

  void add(const std::vector<Stage>& stages, const LoopStage* loop, bool head) {
    const std::vector<Part> parts = parts_of(stages);
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const Part part = head ? Part::kHead : parts[i];
      if (const auto* inner = std::get_if<LoopStage>(&stages[i].op)) add(inner->body, inner, head);
      if (const auto* linear = std::get_if<LinearStage>(&stages[i].op)) {
        const Size rows = program_.is_plain() ? rows_of(program_, *linear) : 1;
        add(part, linear->weight, loop, static_cast<std::uint64_t>(rows.bound()));
        add(part, linear->more_rows, loop, static_cast<std::uint64_t>(rows.bound()));
      }
      if (const auto* qkv = std::get_if<QkvStage>(&stages[i].op)) {
        add(part, qkv->weight, loop, 1);
        add(part, qkv->value_weight, loop, 1);
      }
    }
  }
  std::vector<Products> result() && {
    std::vector<Products> all;
    for (auto& [key, products] : found_) all.push_back(std::move(products));
    return all;
  }

 private:
  void add(Part part, WeightRef ref, const LoopStage* loop, std::uint64_t rows) {
    if (!ref.exists()) return;
    if (!ref.per_layer) return add(part, program_.weights[ref.index], rows);
    for (const std::uint32_t index : loop->fields[ref.index].weights)
      add(part, program_.weights[index], rows);
  }
  void add(Part part, const PackedWeight& weight, std::uint64_t rows) {
    const std::string format = weight.format_name();
    Products& products = found_[{part, format}];
    products.part = part;
    products.format = format;
    products.macs += rows * weight.active_elements();
    products.bytes += weight.active_bytes();
    if (weight.matrix == coded_weight(kSplitSixBits)) products.split_bytes += weight.active_bytes();
  }

  const Program& program_;
  std::map<std::pair<Part, std::string>, Products> found_;
};

void add_cache_reads(const std::vector<Stage>& stages, std::uint64_t count, KvFormats formats,
                     std::uint32_t block, std::vector<CacheReads>& all) {
  for (const Stage& stage : stages) {
    if (const auto* loop = std::get_if<LoopStage>(&stage.op))
      add_cache_reads(loop->body, loop->count, formats, block, all);
    const auto* attention = std::get_if<AttentionStage>(&stage.op);
    if (attention == nullptr) continue;
    auto at = std::ranges::find_if(all, [&](const CacheReads& reads) {
      return reads.window == attention->window && reads.chunked == attention->chunked;
    });
    if (at == all.end())
      at = all.insert(at, {.window = attention->window, .chunked = attention->chunked});
    const AttentionShape& shape = attention->shape;
    at->key_bytes +=
        count * (kv_layer_bytes(shape.kv_heads, shape.head_dim, block, formats) / block);
  }
}

/// Sums the work of a program's nests and tiled calls.
class NestWorkSum {
 public:
  explicit NestWorkSum(const Program& program) : program_(program) {}

  /// Adds `stages`, which run `count` times per token. The weights of a loop body are added for
  /// each iteration.
  void add(const std::vector<Stage>& stages, const LoopStage* loop, std::uint64_t count) {
    std::set<std::uint32_t> by_nests, by_calls;  // weight buffers
    for (const Stage& stage : stages) {
      if (const auto* inner = std::get_if<LoopStage>(&stage.op)) {
        add(inner->body, inner, inner->count);
        continue;
      }
      const auto* call = std::get_if<CallStage>(&stage.op);
      if (!call && !std::holds_alternative<MapStage>(stage.op)) continue;
      const bool tiled = call && call->tiled;
      const std::uint64_t multiply_adds = count * (call ? call->multiply_adds : 0);
      work_.all_multiply_adds += multiply_adds;
      if (!tiled) {
        work_.stages += count;
        work_.multiply_adds += multiply_adds;
        work_.operators[stage.comment.substr(0, stage.comment.find(' '))] += count;
      }
      for (const BufferId id : access(stage).reads)
        if (program_.buffers[id.index].place == Place::kWeight)
          (tiled ? by_calls : by_nests).insert(id.index);
    }
    for (const std::uint32_t buffer : by_nests) {
      work_.bytes += bytes_of(buffer, loop);
      by_calls.insert(buffer);
    }
    for (const std::uint32_t buffer : by_calls) work_.all_bytes += bytes_of(buffer, loop);
  }
  NestWork result() && { return std::move(work_); }

 private:
  std::uint64_t bytes_of(std::uint32_t buffer, const LoopStage* loop) const {
    const WeightRef ref = program_.buffers[buffer].weight;
    if (!ref.per_layer) return program_.weights[ref.index].bytes;
    std::uint64_t bytes = 0;
    for (const std::uint32_t weight : loop->fields[ref.index].weights)
      bytes += program_.weights[weight].bytes;
    return bytes;
  }

  const Program& program_;
  NestWork work_;
};

}  // namespace

NestWork nest_work(const Program& program) {
  NestWorkSum sum(program);
  sum.add(program.forward, nullptr, 1);
  sum.add(program.head, nullptr, 1);
  NestWork work = std::move(sum).result();
  for (const Products& products : products_of(program)) {
    work.all_multiply_adds += products.macs;
    work.all_bytes += products.bytes;
  }
  return work;
}

std::string_view part_name(Part part) {
  LLMC_CHECK(static_cast<std::uint32_t>(part) < kParts);
  return kPartNames[static_cast<std::uint32_t>(part)];
}

std::optional<Part> parse_part(std::string_view name) {
  const auto* const at = std::ranges::find(kPartNames, name);
  if (at == std::end(kPartNames)) return std::nullopt;
  return static_cast<Part>(at - std::begin(kPartNames));
}

std::vector<Part> parts_of(const std::vector<Stage>& stages) {
  const std::vector<bool> feeds = feed_attention(stages);
  std::vector<Part> parts(stages.size(), Part::kRest);
  Writers writers;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    parts[i] = part_of(stages[i], writers, feeds[i]);
    for (const BufferId out : access(stages[i]).writes) writers[out] = {i, parts[i]};
  }
  // A norm belongs to the part of its first reader.
  std::map<BufferId, Part> readers;
  for (std::size_t i = stages.size(); i-- > 0;) {
    const Access used = access(stages[i]);
    if (const auto* norm = std::get_if<NormStage>(&stages[i].op)) {
      if (const auto reader = readers.find(norm->out); reader != readers.end())
        parts[i] = reader->second;
    }
    for (const BufferId out : used.writes) readers.erase(out);
    for (const BufferId in : used.reads) readers[in] = parts[i];
  }
  return parts;
}

std::uint64_t product_multiply_adds(const Program& program, const Stage& stage,
                                    const LoopStage* loop) {
  std::uint64_t sum = 0;
  const auto add = [&](WeightRef ref) {
    if (!ref.exists()) return;
    sum += weight_of(program, ref, loop).active_elements();
  };
  if (const auto* linear = std::get_if<LinearStage>(&stage.op)) {
    add(linear->weight);
    add(linear->more_rows);
  } else if (const auto* qkv = std::get_if<QkvStage>(&stage.op)) {
    add(qkv->weight);
    add(qkv->value_weight);
  }
  return sum;
}

std::uint64_t run_multiply_adds(const Program& program, const Stage& stage) {
  if (const auto* call = std::get_if<CallStage>(&stage.op)) return call->multiply_adds;
  const auto* linear = std::get_if<LinearStage>(&stage.op);
  if (linear == nullptr) return 0;
  return static_cast<std::uint64_t>(rows_of(program, *linear).bound()) *
         product_multiply_adds(program, stage, nullptr);
}

std::uint64_t CacheReads::bytes_at(std::uint64_t position) const {
  std::uint64_t keys = position + 1;
  if (window > 0) keys = chunked ? position % window + 1 : std::min(keys, window);
  return keys * key_bytes;
}

std::vector<CacheReads> cache_reads_of(const Program& program, KvFormats formats,
                                       std::uint32_t block) {
  std::vector<CacheReads> all;
  add_cache_reads(program.forward, 1, formats, block, all);
  return all;
}

std::vector<Products> products_of(const Program& program) {
  PartSizes sizes(program);
  sizes.add(program.forward, nullptr, false);
  sizes.add(program.head, nullptr, true);
  return std::move(sizes).result();
}

}  // namespace llmc::plan
