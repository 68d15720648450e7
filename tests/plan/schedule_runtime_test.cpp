// Tests that the timeline that `plan` draws is the order in which the runtime's pipeline works, if
// both have the same costs on a virtual clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/plan/schedule.h"
#include "llmc/device.h"
#include "tests/plan/stage_graph.h"
#include "tests/runtime/core/fake_model.h"

namespace llmc::plan {
namespace {

Plan accelerated_plan(const target::Device& device, std::uint32_t in_flight) {
  PlanOptions options;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.ctx = fake::kContext;
  options.chunk = 32;  // with smaller chunks, no region is worth a job
  options.device = target::find_device("reference");
  options.in_flight = in_flight;
  auto plan = make_plan(tests::stage_graph({.layers = 3}), options);
  if (!plan.ok()) ADD_FAILURE() << llmc::format(plan.error().first());
  plan->partition->device = &device;  // the same regions for every device
  plan->options.chunk = fake::kChunk;
  return *std::move(plan);
}

/// A CPU and a device on which the runtime's steps and jobs take the times of a schedule.
class VirtualMachine {
 public:
  VirtualMachine(const Schedule& schedule, double submit_ns) : submit_ns_(submit_ns) {
    for (const Span& span : schedule.spans) {
      times_[{span.chunk, span.first_step}] = span.end - span.begin;
      for (std::uint32_t step = span.first_step; step < span.end_step; ++step) {
        regions_.resize(std::max<std::size_t>(regions_.size(), step + 1));
        regions_[step] = span.on_device ? 1 : 0;
      }
    }
    device_ = {.abi = LLMC_DEVICE_ABI,
               .size = sizeof(llmc_device),
               .name = "virtual",
               .user = this,
               .prepare = [](void*, const llmc_model*, const void*, void*,
                             std::uint64_t) -> llmc_status { return LLMC_OK; },
               .submit = [](void* user, const llmc_device_job* job) -> std::uint64_t {
                 return static_cast<VirtualMachine*>(user)->submit(*job);
               },
               .wait = [](void* user, std::uint64_t ticket, std::uint32_t timeout) -> int {
                 return static_cast<VirtualMachine*>(user)->wait(ticket, timeout);
               },
               .cancel = [](void*) {},
               .release = [](void*) {},
               .message = nullptr};
  }
  /// Runs a prompt and returns the spans of the steps and jobs that the runtime started.
  std::vector<Span> run(std::uint32_t tokens, std::uint32_t in_flight) {
    llmc_model model = fake::model();
    model.steps = static_cast<std::uint32_t>(regions_.size());
    model.in_flight = in_flight;
    model.step_regions = regions_.data();
    model.run_step = [](const llmc_run* run, std::uint32_t step) { current->run_step(*run, step); };
    model.run_in_flight = llmc_run_in_flight;
    model.arena_bytes = llmc_arena_layout_of_model(&model).total;
    llmc_config config = fake::config();
    config.device = &device_;
    fake::Session session(config, model);
    EXPECT_EQ(session.status, LLMC_OK);
    current = this;
    const std::vector<std::int32_t> ids = fake::prompt(tokens);
    EXPECT_EQ(llmc_prefill(session, ids.data(), ids.size(), nullptr), LLMC_OK);
    current = nullptr;
    return spans_;
  }

 private:
  static std::uint32_t chunk_of(const llmc_run& run) {
    return run.segments[0].position / fake::kChunk;
  }
  double time_of(const llmc_run& run, std::uint32_t step) const {
    const auto time = times_.find({chunk_of(run), step});
    EXPECT_NE(time, times_.end()) << "chunk " << chunk_of(run) << ", step " << step;
    return time == times_.end() ? 0 : time->second;
  }
  void run_step(const llmc_run& run, std::uint32_t step) {
    const double begin = now_;
    now_ += time_of(run, step);
    spans_.push_back({chunk_of(run), step, step + 1, false, begin, now_});
    if (step + 1 == regions_.size()) fake::forward<fake::kBlock>(&run);
  }
  std::uint64_t submit(const llmc_device_job& job) {
    const double begin = std::max(now_ + submit_ns_, device_free_);
    device_free_ = begin + time_of(*job.run, job.first_step);
    spans_.push_back({chunk_of(*job.run), job.first_step, job.end_step, true, begin, device_free_});
    ends_.push_back(device_free_);
    return ends_.size();
  }
  int wait(std::uint64_t ticket, std::uint32_t timeout) {
    const double end = ends_[ticket - 1];
    if (timeout == 0 && end > now_) return LLMC_DEVICE_RUNNING;
    now_ = std::max(now_, end);
    return LLMC_DEVICE_DONE;
  }

  static VirtualMachine* current;  // steps are plain functions, so they need a global
  const double submit_ns_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> times_;  // by chunk and first step
  std::vector<std::uint16_t> regions_;
  llmc_device device_{};
  double now_ = 0, device_free_ = 0;
  std::vector<double> ends_;  // end times of the device's jobs
  std::vector<Span> spans_;
};
VirtualMachine* VirtualMachine::current = nullptr;

TEST(Schedule, IsWhatTheRuntimeDoes) {
  for (const double rate : {0.5, 5.0, 20.0, 300.0}) {  // from a slow device to a fast one
    target::Device device = *target::find_device("reference");
    device.multiply_adds_per_ns = rate;
    device.submit_ns = 40;
    for (const std::uint32_t in_flight : {1u, 2u, 3u, 8u}) {
      for (const std::uint32_t tokens : {2u, 7u, 20u, 45u}) {
        const Plan plan = accelerated_plan(device, in_flight);
        const Schedule schedule = simulate(plan, tokens);
        const std::vector<Span> spans =
            VirtualMachine(schedule, device.submit_ns).run(tokens, in_flight);
        ASSERT_EQ(spans.size(), schedule.spans.size());
        for (std::size_t i = 0; i < spans.size(); ++i) {
          const Span &a = spans[i], &b = schedule.spans[i];
          ASSERT_TRUE(a.chunk == b.chunk && a.first_step == b.first_step &&
                      a.end_step == b.end_step && a.on_device == b.on_device)
              << "span " << i << " of " << tokens << " tokens, " << in_flight << " in flight";
          EXPECT_NEAR(a.begin, b.begin, 1e-6 * schedule.total);
          EXPECT_NEAR(a.end, b.end, 1e-6 * schedule.total);
        }
      }
    }
  }
}

}  // namespace
}  // namespace llmc::plan
