#include "compiler/bench/parallel_timer.h"

#include <barrier>
#include <chrono>
#include <thread>

namespace llmc::bench {

std::vector<double> parallel_seconds(std::uint32_t threads, std::uint32_t samples,
                                     const std::function<void(std::uint32_t)>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> result;
  result.reserve(samples + 1);
  Clock::time_point start;
  std::barrier begin(threads, [&]() noexcept { start = Clock::now(); });
  std::barrier end(threads, [&]() noexcept {
    result.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  });
  const auto run = [&](std::uint32_t index) {
    for (std::uint32_t i = 0; i < samples + 1; ++i) {
      begin.arrive_and_wait();
      work(index);
      end.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& t : others) t.join();
  result.erase(result.begin());
  return result;
}

}  // namespace llmc::bench
