#include "compiler/support/worker_pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <stdexcept>

namespace llmc {
namespace {

Status failure(std::size_t i) {
  Diagnostic d;
  d.message = "item " + std::to_string(i);
  return d;
}

TEST(WorkerPool, DoesEveryItemOnceInEveryRound) {
  for (const std::size_t threads : {1u, 2u, 5u}) {
    WorkerPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t count : {0u, 1u, 3u, 100u, 2u, 1000u}) {
      std::vector<int> done(count);
      ASSERT_TRUE(pool.run(count,
                           [&](std::size_t i) {
                             ++done[i];
                             return ok_status();
                           })
                      .ok());
      EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), static_cast<int>(count));
      EXPECT_EQ(std::ranges::count(done, 1), static_cast<int>(count));
    }
  }
}

TEST(WorkerPool, TakesTheMachinesThreads) {
  EXPECT_EQ(WorkerPool().threads(), std::max(1u, std::thread::hardware_concurrency()));
}

TEST(WorkerPool, GivesTheFirstErrorAndGoesOn) {
  WorkerPool pool(3);
  const auto status =
      pool.run(50, [](std::size_t i) { return i % 20 == 7 ? failure(i) : ok_status(); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().message, "item 7");
  EXPECT_TRUE(pool.run(50, [](std::size_t) { return ok_status(); }).ok());
}

TEST(WorkerPool, WhatIsThrownIsAnErrorOnAnyThread) {
  for (const std::size_t threads : {1u, 4u}) {
    WorkerPool pool(threads);
    const auto memory = pool.run(8, [](std::size_t i) -> Status {
      if (i == 5) throw std::bad_alloc();
      return ok_status();
    });
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.error().first().message, "out of memory");
    const auto other = pool.run(8, [](std::size_t) -> Status { throw std::runtime_error("boom"); });
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.error().first().message, "boom");
  }
}

}  // namespace
}  // namespace llmc
