#include "compiler/plan/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "compiler/plan/parts.h"
#include "compiler/support/check.h"
#include "compiler/target/device.h"
#include "llmc/sizes.h"

namespace llmc::plan {
namespace {

/// Calls f(stage) for every stage. Stages of a loop body are visited once.
template <class F>
void for_each_stage(const std::vector<Stage>& stages, F&& f) {
  for (const Stage& stage : stages) {
    if (const auto* loop = std::get_if<LoopStage>(&stage.op)) {
      for (const Stage& inner : loop->body) f(inner);
    } else {
      f(stage);
    }
  }
}

class Partitioner {
 public:
  Partitioner(Program& program, const target::Device& device, std::uint32_t chunk)
      : program_(program), device_(device), chunk_(chunk) {
    for (const Buffer& buffer : program.buffers) names_.insert(buffer.name);
  }

  Partition run() {
    result_.device = &device_;
    divide(program_.forward, nullptr);
    for (Stage& stage : program_.forward)
      if (auto* loop = std::get_if<LoopStage>(&stage.op)) divide(loop->body, loop);
    if (!device_.shares_memory) {
      quantize_borders(program_.forward, nullptr);
      for (Stage& stage : program_.forward)
        if (auto* loop = std::get_if<LoopStage>(&stage.op)) quantize_borders(loop->body, loop);
    }
    find_operands();
    count();
    return std::move(result_);
  }

 private:
  const PackedWeight& weight(WeightRef ref, const LoopStage* loop) const {
    return weight_of(program_, ref, loop);
  }
  bool takes_weight(WeightRef ref, const LoopStage* loop) const {
    if (!ref.exists() || device_.formats.empty()) return true;
    return std::ranges::count(device_.formats, weight(ref, loop).format_name()) > 0;
  }
  bool takes(const Stage& stage, const LoopStage* loop) const {
    const Access used = access(stage);
    const auto is_row = [&](BufferId id) {
      return !id.exists() || (program_.buffers[id.index].place == Place::kArena &&
                              program_.buffers[id.index].element == ir::ElementType::kF32);
    };
    if (stage.recurrence != 0 || !std::ranges::all_of(used.reads, is_row) ||
        !std::ranges::all_of(used.writes, is_row))
      return false;
    if (const auto* s = std::get_if<LinearStage>(&stage.op))
      return s->experts == 0 && !s->windows && takes_weight(s->weight, loop) &&
             takes_weight(s->more_rows, loop);
    return std::holds_alternative<NormStage>(stage.op) ||
           std::holds_alternative<GatedStage>(stage.op) ||
           std::holds_alternative<BinaryStage>(stage.op) ||
           std::holds_alternative<UnaryStage>(stage.op) ||
           std::holds_alternative<CopyStage>(stage.op);
  }

  /// Splits each projection to q, k and v whose weight formats the device supports.
  void split_projections(std::vector<Stage>& stages, const LoopStage* loop) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const auto* qkv = std::get_if<QkvStage>(&stages[i].op);
      if (qkv == nullptr || !takes_weight(qkv->weight, loop) ||
          !takes_weight(qkv->value_weight, loop))
        continue;
      std::uint64_t rows = weight(qkv->weight, loop).packed_rows;
      if (qkv->value_weight.exists()) rows += weight(qkv->value_weight, loop).packed_rows;
      const BufferId product = product_buffer(rows);
      Stage linear = stages[i], finish = stages[i];
      linear.op = LinearStage{.source = qkv->source,
                              .norm = qkv->norm,
                              .weight = qkv->weight,
                              .bias = {},
                              .more_rows = qkv->value_weight,
                              .residual = {},
                              .out = product,
                              .n = rows,
                              .k = qkv->k};
      linear.comment = fmt::format("{}[tokens, {}] x [{}, {}]^T", qkv->norm.exists() ? "norm " : "",
                                   qkv->k, rows, qkv->k);
      finish.op = QkvFinishStage{*qkv, product};
      finish.comment = "product -> q, and k and v into the cache";
      stages[i] = std::move(finish);
      stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(i), std::move(linear));
      ++i;
    }
  }
  /// Returns the buffer of a product with `rows` elements per token. All projections of this size
  /// share it, because their products are never live at the same time.
  BufferId product_buffer(std::uint64_t rows) {
    const auto [at, is_new] = products_.try_emplace(rows);
    if (!is_new) return at->second;
    at->second = {static_cast<std::uint32_t>(program_.buffers.size())};
    program_.buffers.push_back({.name = new_name("product"), .width = rows});
    return at->second;
  }

  /// Assigns regions to the stages of a list, but not to the stages in the bodies of its loops.
  void divide(std::vector<Stage>& stages, const LoopStage* loop) {
    split_projections(stages, loop);
    for (std::size_t begin = 0; begin < stages.size();) {
      std::size_t end = begin;
      while (end < stages.size() && takes(stages[end], loop)) ++end;
      if (end > begin) add_region({stages.data() + begin, stages.data() + end}, loop);
      begin = end + 1;
    }
    join_projections(stages);
  }
  /// Undoes split_projections() where the product stays on the CPU.
  static void join_projections(std::vector<Stage>& stages) {
    for (std::size_t i = 1; i < stages.size(); ++i) {
      const auto* finish = std::get_if<QkvFinishStage>(&stages[i].op);
      if (finish == nullptr || stages[i - 1].region != 0) continue;
      stages[i].op = QkvStage(finish->projection);
      stages[i].comment = stages[i - 1].comment + " -> q, and k and v into the cache";
      stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(--i));
    }
  }
  void add_region(std::span<Stage> stages, const LoopStage* loop) {
    Region region{.count = loop == nullptr ? 1 : loop->count,
                  .stages = static_cast<std::uint32_t>(stages.size())};
    for (const Stage& stage : stages) {
      region.multiply_adds += product_multiply_adds(program_, stage, loop);
      const auto* linear = std::get_if<LinearStage>(&stage.op);
      if (linear == nullptr) continue;
      for (const WeightRef ref : {linear->weight, linear->more_rows}) {
        if (!ref.exists()) continue;
        region.products.push_back(weight(ref, loop).label);
        region.weight_bytes += weight(ref, loop).bytes;
      }
    }
    const auto work = static_cast<double>(region.multiply_adds * chunk_);
    const double cpu = work / target::kCpuMultiplyAddsPerNs;
    const double device = work / device_.multiply_adds_per_ns;
    // If the device is slower than the CPU, the CPU waits for the difference.
    double lost = device_.submit_ns + std::max(device - cpu, 0.0);
    if (!device_.shares_memory)
      lost += static_cast<double>(crossing_bytes(stages) * chunk_) / device_.bytes_per_ns;
    if (cpu <= lost) return;
    result_.regions.push_back(std::move(region));
    for (Stage& stage : stages) stage.region = static_cast<std::uint32_t>(result_.regions.size());
  }

  std::uint64_t row_bytes(BufferId id) const { return program_.buffers[id.index].row_bytes(); }
  /// Makes the CPU quantize the rows that it computes for a region's products, so that codes and
  /// scales cross the border instead of floats.
  void quantize_borders(std::vector<Stage>& stages, const LoopStage* loop) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      auto* linear = std::get_if<LinearStage>(&stages[i].op);
      if (linear == nullptr || stages[i].region == 0 || linear->norm.exists() ||
          !is_quantized(weight(linear->weight, loop).matrix) ||
          quantized_bytes(linear->k, 1) >= linear->k * sizeof(float))
        continue;
      std::size_t begin = i;  // of the region
      while (begin > 0 && stages[begin - 1].region == stages[i].region) --begin;
      if (begin == 0 || stages[begin - 1].region != 0 || !only_read_there(linear->source) ||
          !is_from_cpu(stages, begin, i, linear->source))
        continue;
      const BufferId source = linear->source, codes = codes_buffer(source, linear->k);
      linear->source = codes;
      linear->quantized = true;
      Stage quantize{.op = QuantizeStage{source, codes, linear->weight, linear->k},
                     .origin = stages[i].origin,
                     .comment = "codes and scales for the border"};
      stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(begin), std::move(quantize));
      ++i;
    }
  }
  /// Returns whether exactly one stage reads a buffer. The head counts as a reader of `hidden`.
  bool only_read_there(BufferId id) const {
    std::size_t readers = id == program_.hidden ? 1 : 0;
    for (const std::vector<Stage>* list : {&program_.forward, &program_.head})
      for_each_stage(*list, [&](const Stage& stage) {
        readers += static_cast<std::size_t>(std::ranges::count(access(stage).reads, id));
      });
    return readers == 1;
  }
  /// Returns whether the CPU computes the buffer that stage `reader` of a region reads, in the same
  /// list.
  static bool is_from_cpu(const std::vector<Stage>& stages, std::size_t begin, std::size_t reader,
                          BufferId id) {
    for (std::size_t i = reader; i-- > 0;)
      if (std::ranges::count(access(stages[i]).writes, id) > 0)
        return i < begin && stages[i].region == 0;
    return false;
  }
  /// Adds the buffer for the quantized rows of `source`.
  BufferId codes_buffer(BufferId source, std::uint64_t k) {
    program_.buffers.push_back({.name = new_name(program_.buffers[source.index].name + "_codes"),
                                .width = quantized_bytes(k, 1),
                                .element = ir::ElementType::kU8});
    return {static_cast<std::uint32_t>(program_.buffers.size() - 1)};
  }
  /// Returns `stem`, or the first of stem_2, stem_3, … that is not the name of a buffer.
  std::string new_name(const std::string& stem) {
    std::string name = stem;
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", stem, i);
    return name;
  }

  /// Returns the bytes per row that the stages read from other stages or write for other stages.
  std::uint64_t crossing_bytes(std::span<const Stage> stages) const {
    std::set<BufferId> written, crossing, elsewhere{program_.hidden};
    for_each_stage(program_.forward, [&](const Stage& stage) {
      if (&stage >= stages.data() && &stage < stages.data() + stages.size()) return;
      for (const BufferId id : access(stage).reads) elsewhere.insert(id);
    });
    for (const Stage& stage : stages) {
      const Access used = access(stage);
      for (const BufferId id : used.reads)
        if (id.exists() && !written.contains(id)) crossing.insert(id);
      for (const BufferId id : used.writes)
        if (id.exists()) written.insert(id);
    }
    for (const BufferId id : written)
      if (elsewhere.contains(id)) crossing.insert(id);
    std::uint64_t bytes = 0;
    for (const BufferId id : crossing) bytes += row_bytes(id);
    return bytes;
  }

  /// Finds what each region reads, and what it writes for stages outside it or for its next
  /// execution.
  void find_operands() {
    std::map<BufferId, std::set<std::uint32_t>> readers;  // regions; 0: the CPU
    std::vector<std::set<BufferId>> written(result_.regions.size());
    const auto visit = [&](const Stage& stage) {
      const Access used = access(stage);
      Region* const region = stage.region == 0 ? nullptr : &result_.regions[stage.region - 1];
      for (const BufferId id : used.reads) {
        if (!id.exists()) continue;
        if (region == nullptr) {
          readers[id].insert(0);
        } else if (!written[stage.region - 1].contains(id)) {
          readers[id].insert(stage.region);
          if (std::ranges::count(region->inputs, id) == 0) region->inputs.push_back(id);
        }
      }
      if (region == nullptr) return;
      for (const BufferId id : used.writes)
        if (id.exists()) written[stage.region - 1].insert(id);
    };
    for_each_stage(program_.forward, visit);
    readers[program_.hidden].insert(0);
    for (std::size_t i = 0; i < written.size(); ++i)
      for (const BufferId id : written[i])
        if (readers.contains(id)) result_.regions[i].outputs.push_back(id);
  }

  /// Simulates one execution of all steps to find what crosses the border in each.
  void count() {
    std::set<BufferId> on_cpu;  // buffers whose current value is in the CPU's memory
    std::map<BufferId, std::uint32_t> on_device;  // in the device's: step that computed or read it
    const auto to_cpu = [&](BufferId id) {
      if (on_cpu.contains(id) || !on_device.contains(id)) return;
      result_.bytes_from_device += row_bytes(id);
      result_.crossings.push_back({on_device.at(id), id, true});
      on_cpu.insert(id);
    };
    const auto visit = [&](const Stage& stage, const LoopStage* loop, std::uint32_t step) {
      const std::uint64_t work = product_multiply_adds(program_, stage, loop);
      result_.multiply_adds += work;
      if (stage.region != 0) result_.device_multiply_adds += work;
      const Access used = access(stage);
      for (const BufferId id : used.reads) {
        if (!id.exists()) continue;
        if (stage.region == 0) {
          to_cpu(id);
        } else if (on_cpu.contains(id) && !on_device.contains(id)) {
          result_.bytes_to_device += row_bytes(id);
          result_.crossings.push_back({step, id, false});
          on_device[id] = step;
        }
      }
      for (const BufferId id : used.writes) {
        if (!id.exists()) continue;
        on_cpu.erase(id);
        on_device.erase(id);
        if (stage.region == 0) {
          on_cpu.insert(id);
        } else {
          on_device[id] = step;
        }
      }
    };
    for (const Step& step : steps_of(program_)) {
      for (std::size_t i = step.segment.begin; i < step.segment.end; ++i)
        visit((*step.stages)[i], step.loop, result_.steps);
      ++result_.steps;
    }
    to_cpu(program_.hidden);
    std::ranges::sort(result_.crossings);
  }

  Program& program_;
  const target::Device& device_;
  const std::uint32_t chunk_;
  std::set<std::string> names_;
  std::map<std::uint64_t, BufferId> products_;  // by elements per token
  Partition result_;
};

}  // namespace

Result<Partition> partition(Program& program, const target::Device& device, std::uint32_t chunk) {
  LLMC_CHECK(!program.is_plain());
  const std::string option = fmt::format("--accelerate {}", device.name);
  if (!program.states.empty())
    return Diagnostic{
        .kind = ErrorKind::kUnsupported,
        .message = fmt::format("{}: the model has recurrent states, so that its chunks cannot be "
                               "computed side by side",
                               option),
        .hint = "leave out --accelerate"};
  Partition result = Partitioner(program, device, chunk).run();
  if (result.regions.empty())
    return Diagnostic{
        .kind = ErrorKind::kUnsupported,
        .message = fmt::format("{}: no matrix product of the model is worth sending to the device",
                               option),
        .hint = "a larger --chunk makes larger products; leave out --accelerate for small models"};
  return result;
}

std::vector<Segment> segments_of(const std::vector<Stage>& stages) {
  std::vector<Segment> segments;
  bool joins = false;  // whether the last segment may be continued
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const bool loop = std::holds_alternative<LoopStage>(stages[i].op);
    if (!joins || loop || segments.back().region != stages[i].region)
      segments.push_back({i, i, stages[i].region});
    segments.back().end = i + 1;
    joins = !loop;
  }
  return segments;
}

std::vector<Step> steps_of(const Program& program) {
  std::vector<Step> steps;
  for (const Segment& segment : segments_of(program.forward)) {
    const auto* loop = std::get_if<LoopStage>(&program.forward[segment.begin].op);
    if (loop == nullptr) {
      steps.push_back({.stages = &program.forward, .segment = segment});
      continue;
    }
    const std::vector<Segment> body = segments_of(loop->body);
    for (std::uint32_t i = 0; i < loop->count; ++i)
      for (const Segment& part : body) steps.push_back({&loop->body, part, loop, i});
  }
  return steps;
}

}  // namespace llmc::plan
