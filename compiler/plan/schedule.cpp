#include "compiler/plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "compiler/plan/parts.h"
#include "compiler/support/check.h"

namespace llmc::plan {
namespace {

/// Costs of one step per row. `attention_per_key` is added for each key that the row attends to.
struct StepCost {
  std::uint32_t region = 0;
  double multiply_adds = 0, bytes = 0, attention_per_key = 0;
  double window = INFINITY;  // maximum number of keys
};

class CostModel {
 public:
  explicit CostModel(const Program& program) : program_(program) {
    for (const Step& step : steps_of(program)) add(*step.stages, step.segment, step.loop);
  }
  const std::vector<StepCost>& steps() const { return steps_; }

 private:
  void add(const std::vector<Stage>& stages, const Segment& segment, const LoopStage* loop) {
    StepCost cost{.region = segment.region};
    for (std::size_t i = segment.begin; i < segment.end; ++i) {
      cost.multiply_adds += static_cast<double>(product_multiply_adds(program_, stages[i], loop));
      if (const auto* s = std::get_if<AttentionStage>(&stages[i].op)) {
        cost.attention_per_key += static_cast<double>(2 * s->shape.heads * s->shape.head_dim);
        if (s->window > 0) cost.window = static_cast<double>(s->window);
      }
      const Access used = access(stages[i]);
      for (const auto& list : {used.reads, used.writes})
        for (const BufferId id : list)
          if (id.exists())
            cost.bytes += static_cast<double>(program_.buffers[id.index].row_bytes());
    }
    steps_.push_back(cost);
  }

  const Program& program_;
  std::vector<StepCost> steps_;
};

/// A chunk in flight.
struct ActiveChunk {
  std::uint32_t chunk = 0, first_token = 0, rows = 0;
  std::size_t step = 0;
  double job_end = 0;  // end of its last job on the device
  bool on_device = false;
};

class Simulation {
 public:
  Simulation(const Plan& plan, std::uint32_t tokens, const CpuRates& rates)
      : plan_(plan), rates_(rates), costs_(plan.program), steps_(costs_.steps()) {
    result_.tokens = tokens;
    result_.chunk = plan.options.chunk;
    result_.chunks = (tokens + result_.chunk - 1) / result_.chunk;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].region != 0 && (i == 0 || steps_[i - 1].region == 0)) ++jobs_per_chunk_;
  }

  Schedule run() && {
    while (started_ < result_.chunks || !flights_.empty()) {
      while (started_ < result_.chunks && flights_.size() < plan_.in_flight()) start();
      const bool any = advance();
      if (!flights_.front().on_device && flights_.front().step == steps_.size()) {
        flights_.pop_front();
      } else if (!any) {
        wait();
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  double cpu_time(const StepCost& cost, const ActiveChunk& flight, bool alone) const {
    const double rows = flight.rows;
    // Average per row.
    const double keys = std::min(flight.first_token + (rows + 1) / 2, cost.window);
    const double work =
        rows * (cost.attention_per_key * keys / rates_.attention + cost.bytes / rates_.bytes);
    const bool products = cost.region == 0 || alone;
    return work + (products ? rows * cost.multiply_adds / rates_.multiply_adds : 0.0);
  }
  void start() {
    const std::uint32_t first = started_ * result_.chunk;
    flights_.push_back({.chunk = started_++,
                        .first_token = first,
                        .rows = std::min(result_.chunk, result_.tokens - first)});
    for (const StepCost& cost : steps_) result_.cpu_alone += cpu_time(cost, flights_.back(), true);
  }
  /// Runs the steps of the oldest chunk that is ready. Returns false if there is none.
  bool advance() {
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      ActiveChunk& flight = flights_[i];
      if (flight.on_device && flight.job_end > cpu_) continue;
      flight.on_device = false;
      bool any = false;
      while (flight.step < steps_.size() && steps_[flight.step].region == 0 &&
             (i == 0 || flights_[i - 1].step > flight.step)) {
        const double time = cpu_time(steps_[flight.step], flight, false);
        add({flight.chunk, number(flight.step), number(flight.step + 1), false, cpu_, cpu_ + time});
        cpu_ += time;
        ++flight.step;
        any = true;
      }
      if (flight.step < steps_.size() && steps_[flight.step].region != 0) {
        submit(flight);
        any = true;
      }
      if (any) return true;
    }
    return false;
  }
  void submit(ActiveChunk& flight) {
    const target::Device& device = *plan_.partition->device;
    const std::size_t first = flight.step;
    double time = 0;
    while (flight.step < steps_.size() && steps_[flight.step].region != 0)
      time += flight.rows * steps_[flight.step++].multiply_adds / device.multiply_adds_per_ns;
    const double begin = std::max(cpu_ + device.submit_ns, device_);
    if (!device.shares_memory)
      time += flight.rows *
              static_cast<double>(plan_.partition->bytes_to_device +
                                  plan_.partition->bytes_from_device) /
              jobs_per_chunk_ / device.bytes_per_ns;
    device_ = flight.job_end = begin + time;
    flight.on_device = true;
    add({flight.chunk, number(first), number(flight.step), true, begin, device_});
  }
  /// Nothing is ready: the CPU waits for the job that ends first.
  void wait() {
    double next = INFINITY;
    for (const ActiveChunk& flight : flights_)
      if (flight.on_device) next = std::min(next, flight.job_end);
    LLMC_CHECK(std::isfinite(next));
    cpu_ = std::max(cpu_, next);
  }
  void add(const Span& span) {
    (span.on_device ? result_.device : result_.cpu) += span.end - span.begin;
    result_.total = std::max(result_.total, span.end);
    result_.spans.push_back(span);
  }
  void finish() {
    const bool device_is_busier = result_.device >= result_.cpu;
    double first = INFINITY, last = 0;
    for (const Span& span : result_.spans) {
      if (span.on_device != device_is_busier) continue;
      first = std::min(first, span.begin);
      last = std::max(last, span.end);
    }
    result_.bound = std::max(result_.device, result_.cpu) + first + (result_.total - last);
    const double per_key = [&] {
      double sum = 0;
      for (const StepCost& cost : steps_) sum += cost.attention_per_key;
      return sum;
    }();
    const double s = result_.tokens, c = std::min<double>(result_.chunk, s);
    result_.attention_whole = per_key * s * s;
    result_.attention_chunks = per_key * (s * s + c * s) / 2;
  }
  static std::uint32_t number(std::size_t step) { return static_cast<std::uint32_t>(step); }

  const Plan& plan_;
  const CpuRates rates_;
  const CostModel costs_;
  const std::vector<StepCost>& steps_;
  std::deque<ActiveChunk> flights_;
  std::uint32_t started_ = 0;
  double cpu_ = 0, device_ = 0;  // times at which they become free
  double jobs_per_chunk_ = 0;
  Schedule result_;
};

constexpr std::string_view kChunkDigits = "0123456789abcdefghijklmnopqrstuvwxyz";

}  // namespace

Schedule simulate(const Plan& plan, std::uint32_t tokens, const CpuRates& rates) {
  LLMC_CHECK(plan.partition.has_value());
  return Simulation(plan, tokens, rates).run();
}

std::string timeline_text(const Schedule& schedule, std::size_t columns) {
  std::string text;
  for (const bool on_device : {false, true}) {
    // A column shows the chunk that takes most of its time, ':' if it is mostly idle, or '.' if it
    // is at least 95 % idle.
    std::vector<std::vector<double>> shares(columns, std::vector<double>(schedule.chunks));
    const double width = schedule.total / static_cast<double>(columns);
    for (const Span& span : schedule.spans) {
      if (span.on_device != on_device) continue;
      for (auto c = static_cast<std::size_t>(span.begin / width);
           c < columns && static_cast<double>(c) * width < span.end; ++c) {
        const double begin = std::max(span.begin, static_cast<double>(c) * width);
        shares[c][span.chunk] += std::min(span.end, static_cast<double>(c + 1) * width) - begin;
      }
    }
    text += on_device ? "device  " : "cpu     ";
    for (const std::vector<double>& share : shares) {
      double busy = 0;
      for (const double part : share) busy += part;
      const auto most = static_cast<std::size_t>(std::ranges::max_element(share) - share.begin());
      const double used = busy / width;
      text += used < 0.05 ? '.' : used < 0.5 ? ':' : kChunkDigits[most % kChunkDigits.size()];
    }
    text += "\n";
  }
  return text;
}

std::string timeline_svg(const Schedule& schedule) {
  constexpr double kWidth = 1200, kLeft = 70, kRow = 40, kTop = 30;
  const double scale = kWidth / std::max(schedule.total, 1.0);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{}\" y=\"18\">prompt of {} tokens in chunks of {}: {:.3f} ms; cpu busy {:.0f} %, "
      "device busy {:.0f} %</text>\n",
      kWidth + kLeft + 20, kTop + 2 * kRow + 20, kLeft, schedule.tokens, schedule.chunk,
      schedule.total / 1e6, 100 * schedule.cpu / schedule.total,
      100 * schedule.device / schedule.total);
  for (const bool on_device : {false, true})
    text += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n",
                        kTop + (on_device ? kRow : 0) + kRow / 2, on_device ? "device" : "cpu");
  for (const Span& span : schedule.spans) {
    text += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"hsl({}, 60%, 60%)\">"
        "<title>chunk {}, steps {} to {}: {:.1f} us</title></rect>\n",
        kLeft + span.begin * scale, kTop + (span.on_device ? kRow : 0),
        std::max((span.end - span.begin) * scale, 0.3), kRow - 8, span.chunk * 137 % 360,
        span.chunk, span.first_step, span.end_step - 1, (span.end - span.begin) / 1e3);
  }
  return text + "</svg>\n";
}

}  // namespace llmc::plan
