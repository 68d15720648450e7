// llmc_bench_uneven: two threads, one of which is made slower, go through products with static
// ranges and with tickets. Beside both stands the ideal split: the time in which the two, at the
// rates they have while both are busy, get through the work together. Every round measures rates,
// tickets and static ranges one after the other; the table has the medians and quartiles of rounds.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "llmc/kernels.h"

namespace llmc::bench {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How much longer this thread's work is made to take: 0 is not at all, 1 twice as long.
thread_local double slowness = 0;
thread_local Clock::time_point busy_since;

/// Waits, computing nothing, in proportion to what the thread did since it last came here. An
/// interval in which the thread lost its core counts no more than a usual one.
void be_slow() {
  if (slowness == 0) return;
  const double did = std::min(seconds_since(busy_since), 100e-6);
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < did * slowness) {
  }
  busy_since = Clock::now();
}

/// An epilogue that slows its thread after every unit.
template <class Epilogue>
struct Slowed : Epilogue {
  LLMC_INLINE void finish(const llmc_run* run, size_t unit, const float* tile, size_t stride,
                          size_t token) const {
    Epilogue::finish(run, unit, tile, stride, token);
    be_slow();
  }
};

/// A thread beside the calling one that spins for work; the two are kept on cores 0 and 1.
class Partner {
 public:
  explicit Partner(double slow) : thread_([this, slow] { serve(slow); }) {
    pin(pthread_self(), 0);
    pin(thread_.native_handle(), 1);
  }
  ~Partner() {
    call(nullptr, nullptr);
    thread_.join();
  }
  /// Starts fn(arg, 1) there and returns at once.
  void call(void (*fn)(void*, std::uint32_t), void* arg) {
    fn_ = fn;
    arg_ = arg;
    jobs_.fetch_add(1, std::memory_order_release);
  }
  void wait() const {
    while (done_.load(std::memory_order_acquire) != jobs_.load(std::memory_order_relaxed)) {
    }
  }
  /// llmc_parallel_for of two slots.
  static void run(void* partner, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
    auto* const self = static_cast<Partner*>(partner);
    if (n > 1) self->call(fn, arg);
    fn(arg, 0);
    if (n > 1) self->wait();
  }

 private:
  static void pin(pthread_t thread, int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
  }
  void serve(double slow) {
    slowness = slow;
    for (std::uint32_t job = 1;; ++job) {
      while (jobs_.load(std::memory_order_acquire) != job) {
      }
      if (fn_ == nullptr) return;
      busy_since = Clock::now();
      fn_(arg_, 1);
      done_.store(job, std::memory_order_release);
    }
  }

  void (*fn_)(void*, std::uint32_t) = nullptr;
  void* arg_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> jobs_ = 0;
  alignas(64) std::atomic<std::uint32_t> done_ = 0;
  std::thread thread_;
};

struct Free {
  void operator()(unsigned char* p) const { std::free(p); }
};
using Memory = std::unique_ptr<unsigned char, Free>;
/// 16-bit words that are normal numbers in every format.
Memory filled(std::size_t bytes) {
  Memory memory(static_cast<unsigned char*>(std::aligned_alloc(4096, round_up(bytes, 4096))));
  for (std::size_t i = 0; i + 1 < bytes; i += 2)
    store_u16(memory.get() + i, static_cast<std::uint16_t>(0x3800u | (i * 2654435761u >> 22)));
  return memory;
}

/// One product with memory of its own for each of two callers.
template <class W>
class Product {
 public:
  explicit Product(std::uint32_t tokens)
      : tokens_(tokens),
        weights_(filled(W::bytes)),
        x_(filled(tokens * W::kColumns * 4)),
        y_{filled(tokens * W::kRows * 4), filled(tokens * W::kRows * 4)} {
    const std::size_t bytes = linear_work_bytes(W::kKind, W::kColumns, 1, tokens, 2);
    for (Memory& work : work_) work = filled(bytes);
  }
  void run(const llmc_run& run, std::size_t caller) {
    linear(KernelContext{&run, tokens_, work_[caller].get()},
           Rows<W::kColumns>{reinterpret_cast<float*>(x_.get())}, W{weights_.get()},
           Slowed<Store<W::kRows>>{{reinterpret_cast<float*>(y_[caller].get())}});
  }

 private:
  std::uint32_t tokens_;
  Memory weights_, x_, y_[2], work_[2];
};

/// The four products of a layer, one token: stages that are short.
class Layer {
 public:
  explicit Layer(std::uint32_t tokens)
      : qkv_(tokens), out_(tokens), gate_up_(tokens), down_(tokens) {}
  void run(const llmc_run& run, std::size_t caller) {
    qkv_.run(run, caller);
    out_.run(run, caller);
    gate_up_.run(run, caller);
    down_.run(run, caller);
  }

 private:
  Product<WeightQ4<1152, 896>> qkv_;
  Product<WeightQ4<896, 896>> out_;
  Product<WeightQ4<9728, 896>> gate_up_;
  Product<WeightQ4<896, 4864>> down_;
};

llmc_run make_run(std::uint32_t tokens, std::uint32_t threads, bool uneven, Partner* partner) {
  llmc_run run = {};
  run.count = tokens;
  run.threads = threads;
  run.uneven = uneven;
  run.parallel_for = Partner::run;
  run.user = partner;
  return run;
}

/// How often a second each thread gets through the whole work alone while the other does too.
template <class Work>
double both_rates(Work& work, std::uint32_t tokens, Partner& partner, double seconds) {
  struct Own {
    Work& work;
    llmc_run run;
    double seconds, rate[2];
  } own{work, make_run(tokens, 1, false, nullptr), seconds, {}};
  Partner::run(
      &partner,
      [](void* arg, std::uint32_t slot) {
        Own& o = *static_cast<Own*>(arg);
        const Clock::time_point start = Clock::now();
        double passed = 0;
        int times = 0;
        for (; passed < o.seconds; passed = seconds_since(start), ++times) o.work.run(o.run, slot);
        o.rate[slot] = times / passed;
      },
      &own, 2);
  return own.rate[0] + own.rate[1];
}

template <class Work>
double together(Work& work, std::uint32_t tokens, bool uneven, Partner& partner, double seconds) {
  const llmc_run run = make_run(tokens, 2, uneven, &partner);
  const Clock::time_point start = Clock::now();
  double passed = 0;
  int times = 0;
  for (; passed < seconds; passed = seconds_since(start), ++times) work.run(run, 0);
  return passed / times;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

template <class Work>
void compare(const char* name, std::uint32_t tokens, double slow, int rounds) {
  Work work(tokens);
  Partner partner(slow - 1);
  std::vector<double> ideal, tickets, ranges;
  for (int round = 0; round < rounds; ++round) {
    constexpr double kSeconds = 0.008;  // shorter than what a scheduler gives others
    const double best = 1 / both_rates(work, tokens, partner, kSeconds);
    ideal.push_back(best * 1e6);
    tickets.push_back(together(work, tokens, true, partner, kSeconds) / best);
    ranges.push_back(together(work, tokens, false, partner, kSeconds) / best);
  }
  std::printf("| %s | %.0f x | %.0f | %.2f (%.2f to %.2f) | %.2f (%.2f to %.2f) |\n", name, slow,
              quantile(ideal, 0.5), quantile(tickets, 0.5), quantile(tickets, 0.25),
              quantile(tickets, 0.75), quantile(ranges, 0.5), quantile(ranges, 0.25),
              quantile(ranges, 0.75));
  std::fflush(stdout);
}

}  // namespace
}  // namespace llmc::bench

int main(int argc, char** argv) {
  using namespace llmc;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 121;
  std::printf("| work | slow thread | ideal, us | tickets / ideal | ranges / ideal |\n");
  std::printf("|---|---:|---:|---|---|\n");
  for (const double slow : {1.0, 2.0, 3.0, 4.0}) {
    bench::compare<bench::Product<WeightQ4<4096, 4096>>>("q4 4096 x 4096, 1 token", 1, slow,
                                                         rounds);
    bench::compare<bench::Product<WeightQ4<2048, 2048>>>("q4 2048 x 2048, 32 tokens", 32, slow,
                                                         rounds);
    bench::compare<bench::Layer>("products of a layer, 896 wide, 1 token", 1, slow, rounds);
  }
}
