#include "runtime/hosted/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "tests/runtime/core/fake_model.h"

namespace llmc::hosted {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<ThreadPool> pool_of(std::uint32_t threads, ThreadPoolOptions options = {}) {
  auto pool = ThreadPool::create(threads, options);
  EXPECT_TRUE(pool.ok());
  return std::move(*pool);
}

struct Counts {
  explicit Counts(std::size_t n) : calls(n) {}
  static void count(void* arg, std::uint32_t i) { ++static_cast<Counts*>(arg)->calls[i]; }
  std::vector<std::atomic<int>> calls;
};

TEST(ThreadPool, CallsEveryItemOnce) {
  for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
    const auto pool = pool_of(threads);
    EXPECT_EQ(pool->threads(), threads);
    for (const std::uint32_t n : {0u, 1u, 2u, 3u, 7u, 100u}) {
      Counts counts(n);
      pool->parallel_for(Counts::count, &counts, n);
      for (const auto& calls : counts.calls) EXPECT_EQ(calls, 1);
    }
  }
}

TEST(ThreadPool, ResultsAreVisibleAndJobsDoNotMix) {
  // Plain memory: each job reads what the last one wrote, on other threads. Too few threads to hide
  // a job that starts before the last one ended.
  for (const auto spin : {0us, 100us}) {
    const auto pool = pool_of(3, {.spin = spin});
    struct State {
      std::array<std::uint64_t, 3> values{1, 2, 3}, next{};
    } state;
    auto expected = state.values;
    for (int round = 0; round < 20000; ++round) {
      pool->parallel_for(
          [](void* arg, std::uint32_t i) {
            auto& s = *static_cast<State*>(arg);
            s.next[i] = s.values[(i + 1) % 3] * 3 + s.values[i];
          },
          &state, 3);
      pool->parallel_for(
          [](void* arg, std::uint32_t i) {
            auto& s = *static_cast<State*>(arg);
            s.values[i] = s.next[i];
          },
          &state, 3);
      const auto old = expected;
      for (std::size_t i = 0; i < 3; ++i) expected[i] = old[(i + 1) % 3] * 3 + old[i];
      ASSERT_EQ(state.values, expected) << round;
    }
  }
}

TEST(ThreadPool, ManyShortJobs) {
  const auto pool = pool_of(2);
  constexpr int kJobs = 100000;
  Counts counts(2);
  for (int i = 0; i < kJobs; ++i) pool->parallel_for(Counts::count, &counts, 2);
  EXPECT_EQ(counts.calls[0], kJobs);
  EXPECT_EQ(counts.calls[1], kJobs);
}

TEST(ThreadPool, WakesSleepers) {
  const auto pool = pool_of(2, {.spin = 0us});
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(1ms);
    Counts counts(2);
    pool->parallel_for(Counts::count, &counts, 2);
    ASSERT_EQ(counts.calls[0] + counts.calls[1], 2);
  }
}

TEST(ThreadPool, OthersDoTheItemsOfAThreadThatIsHeldUp) {
  // Whoever takes item 0 is stuck until all others are done.
  const auto pool = pool_of(2);
  struct Job {
    std::atomic<int> others{0};
    bool all = false;
  } job;
  pool->parallel_for(
      [](void* arg, std::uint32_t i) {
        auto& j = *static_cast<Job*>(arg);
        if (i != 0) {
          ++j.others;
          return;
        }
        const auto until = std::chrono::steady_clock::now() + 20s;
        while (j.others < 99 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        j.all = j.others == 99;
      },
      &job, 100);
  EXPECT_TRUE(job.all);
}

/// Two items, each waiting for the other to begin (at most a second); the one that is not the
/// caller's then sleeps. Returns whether there were two threads.
bool together(ThreadPool& pool, std::chrono::milliseconds sleep) {
  struct Job {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> begun{0};
    std::atomic<bool> stranger{false};
    std::chrono::milliseconds sleep;
  } job;
  job.sleep = sleep;
  pool.parallel_for(
      [](void* arg, std::uint32_t) {
        auto& j = *static_cast<Job*>(arg);
        const bool stranger = std::this_thread::get_id() != j.caller;
        if (stranger) j.stranger = true;
        ++j.begun;
        const auto until = std::chrono::steady_clock::now() + 1s;
        while (j.begun < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        if (stranger) std::this_thread::sleep_for(j.sleep);
      },
      &job, 2);
  return job.stranger;
}

TEST(ThreadPool, WorksAloneForAWhileAfterAThreadLostItsCore) {
  const auto pool = pool_of(2, {.patience = 10ms, .alone_min = 2s});
  ASSERT_TRUE(together(*pool, 0ms));
  ASSERT_TRUE(together(*pool, 300ms)) << "nothing was wrong so far";
  const auto start = std::chrono::steady_clock::now();
  bool alone = true;
  for (int i = 0; i < 100; ++i) {
    struct Job {
      std::thread::id caller = std::this_thread::get_id();
      std::atomic<bool> stranger{false};
    } job;
    pool->parallel_for(
        [](void* arg, std::uint32_t) {
          auto& j = *static_cast<Job*>(arg);
          if (std::this_thread::get_id() != j.caller) j.stranger = true;
        },
        &job, 2);
    alone = alone && !job.stranger;
  }
  if (std::chrono::steady_clock::now() - start < 1s) EXPECT_TRUE(alone);
  std::this_thread::sleep_for(2s);
  EXPECT_TRUE(together(*pool, 0ms)) << "and together again";
}

TEST(ThreadPool, ACallFromInsideAJobRunsOnItsWorker) {
  const auto pool = pool_of(3);
  struct Nested {
    ThreadPool* pool;
    std::atomic<int> inner{0}, strangers{0};
  } nested{pool.get()};
  pool->parallel_for(
      [](void* arg, std::uint32_t) {
        auto& self = *static_cast<Nested*>(arg);
        struct Inner {
          Nested* nested;
          std::thread::id caller;
        } inner{&self, std::this_thread::get_id()};
        self.pool->parallel_for(
            [](void* p, std::uint32_t) {
              auto& in = *static_cast<Inner*>(p);
              ++in.nested->inner;
              if (std::this_thread::get_id() != in.caller) ++in.nested->strangers;
            },
            &inner, 5);
      },
      &nested, 3);
  EXPECT_EQ(nested.inner, 15);
  EXPECT_EQ(nested.strangers, 0);
}

TEST(ThreadPool, TwoApplicationThreadsTakeTurns) {
  const auto pool = pool_of(2);
  std::atomic<int> inside{0}, together{0};
  struct Job {
    std::atomic<int>*inside, *together;
    int owner;
    std::atomic<int> calls{0};
  };
  const auto hammer = [&](int owner) {
    Job job{&inside, &together, owner};
    for (int i = 0; i < 5000; ++i) {
      pool->parallel_for(
          [](void* arg, std::uint32_t) {
            auto& j = *static_cast<Job*>(arg);
            ++j.calls;
            const int before = j.inside->exchange(j.owner);
            if (before != 0 && before != j.owner) ++*j.together;
            j.inside->store(0);
          },
          &job, 2);
    }
    EXPECT_EQ(job.calls, 10000);
  };
  std::thread other(hammer, 1);
  hammer(2);
  other.join();
  EXPECT_EQ(together, 0);
}

TEST(ThreadPool, RefusesSizesThatMakeNoSense) {
  EXPECT_EQ(ThreadPool::create(0).failure().status, LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(ThreadPool::create(1u << 20).failure().status, LLMC_ERROR_ARGUMENT);
  EXPECT_GE(usable_cores(), 1u);
}

TEST(ThreadPool, ASessionGivesTheSameLogitsOnIt) {
  const auto tokens = fake::prompt(40);
  const fake::Session serial;
  ASSERT_EQ(llmc_prefill(serial, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  for (std::uint32_t threads = 1; threads <= fake::kThreadsMax; ++threads) {
    const auto pool = pool_of(threads);
    llmc_config config = fake::config();
    config.threads = threads;
    config.parallel_for = ThreadPool::run;
    config.parallel_user = pool.get();
    const fake::Session session(config);
    ASSERT_EQ(llmc_prefill(session, tokens.data(), tokens.size(), nullptr), LLMC_OK);
    EXPECT_EQ(fake::hash_logits(llmc_logits(session)), fake::hash_logits(llmc_logits(serial)));
  }
}

}  // namespace
}  // namespace llmc::hosted
