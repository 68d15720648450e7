// How the units of a stage are spread over workers of equal and of different speed.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "harness.h"
#include "llmc/kernels/stage.h"

namespace llmc::test {
namespace {

llmc_run cores(std::uint32_t threads, bool uneven) {
  llmc_run run = {};
  run.threads = threads;
  run.uneven = uneven;
  return run;
}

struct CountTask {
  WorkPartition partition;
  std::vector<std::atomic<int>>& times;

  void work(std::size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      for (std::size_t i = range.begin; i < range.end; ++i) ++times[i];
    }
  }
};

TEST(WorkPartition, EveryUnitIsDoneOnce) {
  for (const bool uneven : {false, true}) {
    for (const std::size_t total : {0u, 1u, 2u, 7u, 24u, 137u, 1376u, 40000u}) {
      for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
        for (const std::size_t granule : {1u, 4u}) {
          llmc_run run = cores(threads, uneven);
          run.parallel_for = run_threads;
          std::vector<std::atomic<int>> times(total);
          CountTask task{WorkPartition(&run, total, threads, granule), times};
          for_each_worker(&run, task);
          EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }))
              << total << " units, " << threads << " threads, uneven: " << uneven;
        }
      }
    }
  }
}

/// Workers of the given speeds in units a second, who take their ranges in the order of time. Gives
/// when the last one ends, over when it would with the work split in proportion to speed.
double over_ideal(WorkPartition partition, std::size_t total, const std::vector<double>& speeds) {
  struct Worker {
    double free_at, speed;
    bool done;
  };
  std::vector<Worker> workers;
  double all = 0, end = 0;
  for (const double speed : speeds) {
    workers.push_back({0, speed, false});
    all += speed;
  }
  for (std::size_t slot = 0; slot < workers.size(); ++slot) {
    const Range range = partition.first(slot);
    workers[slot].free_at = static_cast<double>(range.end - range.begin) / speeds[slot];
  }
  for (;;) {
    Worker* next = nullptr;
    for (Worker& worker : workers) {
      end = std::max(end, worker.free_at);
      if (!worker.done && (next == nullptr || worker.free_at < next->free_at)) next = &worker;
    }
    if (next == nullptr) return end / (static_cast<double>(total) / all);
    const Range range = partition.next();
    next->done = range.begin >= range.end;
    next->free_at += static_cast<double>(range.end - range.begin) / next->speed;
  }
}

TEST(WorkPartition, TicketsEndAtAboutTheSameTimeOnFastAndSlowCores) {
  const std::vector<std::vector<double>> machines = {
      {1, 0.5}, {1, 0.33}, {1, 0.25}, {1, 1, 0.5, 0.5}, {1, 1, 0.3, 0.3}, {0.25, 1, 1, 1}};
  for (const auto& speeds : machines) {
    for (const std::size_t total : {96u, 138u, 512u, 1376u, 4000u}) {
      const auto threads = static_cast<std::uint32_t>(speeds.size());
      const llmc_run uneven = cores(threads, true), even = cores(threads, false);
      const std::string what = std::to_string(total) + " units, " + std::to_string(threads) +
                               " cores, the last at speed " + std::to_string(speeds.back());
      EXPECT_LT(over_ideal(WorkPartition(&uneven, total, threads, 4), total, speeds), 1.15) << what;
      EXPECT_GT(over_ideal(WorkPartition(&even, total, threads, 4), total, speeds), 1.3) << what;
    }
  }
}

TEST(WorkPartition, EvenCoresAndSingleWorkersTakeOneRange) {
  const llmc_run even = cores(4, false), uneven = cores(4, true);
  WorkPartition whole(&uneven, 100, 1);
  const Range all = whole.first(0);
  EXPECT_EQ(all.begin, 0u);
  EXPECT_EQ(all.end, 100u);
  const Range rest = whole.next();
  EXPECT_EQ(rest.begin, rest.end);
  WorkPartition quarter(&even, 100, 4);
  const Range third = quarter.first(2);
  EXPECT_EQ(third.begin, 50u);
  EXPECT_EQ(third.end, 75u);
}

}  // namespace
}  // namespace llmc::test
