#include "runtime/hosted/device/reference_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "llmc/hosted.h"
#include "tests/runtime/core/stepped_model.h"

namespace llmc::hosted {
namespace {

TEST(ReferenceDevice, GivesTheBitsOfTheCpu) {
  const std::uint64_t expected =
      fake::after(fake::Session(fake::config(), fake::stepped_model(1)), 41);
  for (const std::uint32_t threads : {1u, 2u, 4u}) {
    for (const std::uint32_t in_flight : {1u, 2u, 4u}) {
      auto device = ReferenceDevice::create(threads);
      ASSERT_TRUE(device.ok());
      llmc_config config = fake::config();
      config.device = &(*device)->device();
      fake::Session session(config, fake::stepped_model(in_flight));
      ASSERT_EQ(session.status, LLMC_OK);
      for (int run = 0; run < 20; ++run) {
        ASSERT_EQ(fake::after(session, 41), expected);
        ASSERT_EQ(llmc_device_status(session), LLMC_OK);
        llmc_reset(session);
      }
    }
  }
}

/// A step that takes until the test allows it to end.
std::atomic<int> running{0};
std::atomic<bool> may_end{true};
void slow_step(const llmc_run* run, std::uint32_t step) {
  if (fake::kRegions[step] != 0) {
    ++running;
    while (!may_end) std::this_thread::yield();
  }
  fake::run_step(run, step);
}

TEST(ReferenceDevice, ATimeOutEndsItsUseOfTheMemory) {
  const std::uint64_t expected =
      fake::after(fake::Session(fake::config(), fake::stepped_model(1)), 41);
  auto device = ReferenceDevice::create(1);
  ASSERT_TRUE(device.ok());
  llmc_model model = fake::stepped_model(2);
  model.run_step = slow_step;
  llmc_config config = fake::config();
  config.device = &(*device)->device();
  config.device_timeout_ms = 1;
  fake::Session session(config, model);
  may_end = false;
  std::jthread release([] {
    while (running == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    may_end = true;
  });
  EXPECT_EQ(fake::after(session, 41), expected);
  EXPECT_EQ(llmc_device_status(session), LLMC_ERROR_DEVICE);
}

TEST(ReferenceDevice, WakesUpAfterEveryJob) {
  auto device = ReferenceDevice::create(1);
  ASSERT_TRUE(device.ok());
  const llmc_device& functions = (*device)->device();
  llmc_model model = fake::stepped_model(1);
  // About as long as the waiting thread spins before it sleeps.
  model.run_step = [](const llmc_run* run, std::uint32_t) {
    for (std::uint32_t i = 0; i < 350 + run->count % 100; ++i)
      std::atomic_signal_fence(std::memory_order_seq_cst), std::this_thread::yield();
  };
  llmc_run run{};
  const llmc_device_job job{&model, &run, 1, 2};
  for (run.count = 0; run.count < 3000; ++run.count) {
    const std::uint64_t ticket = functions.submit(functions.user, &job);
    ASSERT_EQ(functions.wait(functions.user, ticket, LLMC_DEVICE_NO_LIMIT), LLMC_DEVICE_DONE);
  }
}

TEST(ReferenceDevice, RefusesMoreJobsThanItHasRoomFor) {
  auto device = ReferenceDevice::create(1);
  ASSERT_TRUE(device.ok());
  const llmc_device& functions = (*device)->device();
  llmc_model model = fake::stepped_model(1);
  model.run_step = slow_step;
  std::vector<unsigned char> scratch(model.scratch_bytes);
  llmc_run run{};
  run.scratch = scratch.data();
  const llmc_device_job job{&model, &run, 1, 2};
  EXPECT_EQ(functions.submit(functions.user, &job), 0u) << "without a session";
  ASSERT_EQ(functions.prepare(functions.user, &model, nullptr, scratch.data(), scratch.size()),
            LLMC_OK);
  may_end = false;
  std::uint64_t last = 0, accepted = 0;
  while (const std::uint64_t ticket = functions.submit(functions.user, &job)) {
    last = ticket;
    ASSERT_LT(++accepted, 1000u);
  }
  EXPECT_GE(accepted, LLMC_MAX_IN_FLIGHT);
  EXPECT_EQ(functions.wait(functions.user, last, 0), LLMC_DEVICE_RUNNING);
  EXPECT_EQ(functions.wait(functions.user, last, 100), LLMC_DEVICE_RUNNING);
  may_end = true;
  EXPECT_EQ(functions.wait(functions.user, last, LLMC_DEVICE_NO_LIMIT), LLMC_DEVICE_DONE);
  EXPECT_NE(functions.submit(functions.user, &job), 0u);
  functions.release(functions.user);
  EXPECT_EQ(functions.submit(functions.user, &job), 0u) << "released";
  functions.cancel(functions.user);
}

TEST(ReferenceDevice, InC) {
  const llmc_device* device = nullptr;
  EXPECT_EQ(llmc_reference_device_create(0, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_reference_device_create(5000, &device), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  ASSERT_EQ(llmc_reference_device_create(0, &device), LLMC_OK);
  EXPECT_STREQ(device->name, "reference");
  llmc_reference_device_destroy(device);
  llmc_reference_device_destroy(nullptr);
}

}  // namespace
}  // namespace llmc::hosted
