#include "compiler/bench/parallel_timer.h"

#include <barrier>
#include <thread>

#include "compiler/support/stopwatch.h"

namespace llmc::bench {

std::vector<double> parallel_seconds(std::uint32_t threads, std::uint32_t samples,
                                     const std::function<void(std::uint32_t)>& work) {
  std::vector<double> result;
  result.reserve(samples + 1);
  Stopwatch watch;
  std::barrier begin(threads, [&]() noexcept { watch.restart(); });
  std::barrier end(threads, [&]() noexcept { result.push_back(watch.seconds()); });
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
