#include "runtime/hosted/device/job_thread.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace llmc::hosted {
namespace {

/// A device whose jobs wait until they are allowed, and note their numbers.
struct Jobs {
  std::vector<std::uint64_t> ran;  // read after a wait for the last job
  std::atomic<std::uint64_t> allowed{UINT64_MAX};

  static void run(void* device, std::uint64_t job) noexcept {
    Jobs& jobs = *static_cast<Jobs*>(device);
    while (jobs.allowed < job) std::this_thread::yield();
    jobs.ran.push_back(job);
  }
};

/// A started thread and its device.
class JobThreadTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(thread->start(Jobs::run, &jobs)); }

  Jobs jobs;
  std::unique_ptr<JobThread> thread = std::make_unique<JobThread>();
};

std::vector<std::uint64_t> numbers(std::size_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

TEST_F(JobThreadTest, RunsJobsInTheOrderOfSubmission) {
  EXPECT_TRUE(thread->wait(0, 0)) << "nothing was submitted";
  for (std::uint64_t job = 1; job <= 2000; ++job) {
    thread->submit();
    EXPECT_EQ(thread->last(), job);
    // Some jobs find the thread spinning, others find it asleep.
    if (job % 400 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (job % 7 == 0) ASSERT_TRUE(thread->wait(job, LLMC_DEVICE_NO_LIMIT));
  }
  ASSERT_TRUE(thread->wait(thread->last(), LLMC_DEVICE_NO_LIMIT));
  EXPECT_TRUE(thread->is_done(1));
  EXPECT_EQ(jobs.ran, numbers(2000));
}

TEST_F(JobThreadTest, WaitEndsAtItsLimit) {
  jobs.allowed = 1;
  thread->submit();
  thread->submit();
  EXPECT_TRUE(thread->wait(1, LLMC_DEVICE_NO_LIMIT));
  EXPECT_FALSE(thread->wait(2, 0));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(thread->wait(2, 3000));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::microseconds(3000));
  EXPECT_FALSE(thread->is_done(2));
  jobs.allowed = 2;
  EXPECT_TRUE(thread->wait(2, LLMC_DEVICE_NO_LIMIT));
  EXPECT_EQ(jobs.ran, numbers(2));
}

TEST_F(JobThreadTest, WaitEndsWithAJobThatEndsBeforeTheLimit) {
  jobs.allowed = 0;
  thread->submit();
  std::thread allow([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    jobs.allowed = 1;
  });
  EXPECT_TRUE(thread->wait(1, 3600u * 1000000u));
  allow.join();
}

TEST_F(JobThreadTest, FinishesWhatIsSubmittedBeforeItEnds) {
  for (int i = 0; i < 50; ++i) thread->submit();
  thread.reset();
  EXPECT_EQ(jobs.ran, numbers(50));
}

TEST(JobThread, NeedNotBeStarted) {
  JobThread thread;
  EXPECT_EQ(thread.last(), 0u);
}

}  // namespace
}  // namespace llmc::hosted
