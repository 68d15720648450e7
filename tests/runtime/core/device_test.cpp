#include "llmc/device.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "tests/runtime/core/stepped_model.h"

namespace llmc::fake {
namespace {

/// Runs a job when the runtime has asked for it `delay` times, and fails as told.
struct FakeDevice {
  enum class Fault { kNone, kRefuse, kFail, kNeverDone };
  struct Job {
    std::uint64_t ticket;
    llmc_device_job job;
    std::uint32_t asked = 0;
  };

  explicit FakeDevice(std::uint32_t asked_before = 0) : delay(asked_before) {
    device = {.abi = LLMC_DEVICE_ABI,
              .size = sizeof(llmc_device),
              .name = "fake",
              .user = this,
              .prepare = [](void* user, const llmc_model*, const void* weights, void* scratch,
                            std::uint64_t bytes) -> llmc_status {
                auto& self = *static_cast<FakeDevice*>(user);
                self.memory = static_cast<unsigned char*>(scratch);
                self.memory_bytes = bytes;
                return weights == nullptr ? LLMC_ERROR_ARGUMENT : self.prepared;
              },
              .submit = [](void* user, const llmc_device_job* job) -> std::uint64_t {
                return static_cast<FakeDevice*>(user)->submit(*job);
              },
              .wait = [](void* user, std::uint64_t ticket, std::uint32_t timeout) -> int {
                return static_cast<FakeDevice*>(user)->wait(ticket, timeout);
              },
              .cancel =
                  [](void* user) {
                    auto& self = *static_cast<FakeDevice*>(user);
                    self.jobs.clear();
                    ++self.cancelled;
                  },
              .release = [](void*) {},
              .message = [](void*) { return "as the test says"; }};
  }
  std::uint64_t submit(const llmc_device_job& job) {
    if (fault == Fault::kRefuse && submitted == fault_at) return 0;
    for (std::uint32_t step = job.first_step; step < job.end_step; ++step)
      if (kRegions[step] == 0) std::abort();
    if (job.run->scratch < memory ||
        job.run->scratch + job.model->scratch_bytes > memory + memory_bytes)
      std::abort();
    jobs.push_back({++submitted, job});
    most = std::max(most, jobs.size());
    return submitted;
  }
  int wait(std::uint64_t ticket, std::uint32_t timeout) {
    if (jobs.empty() || jobs.back().ticket < ticket) std::abort();
    const bool fails = fault != Fault::kNone && ticket > fault_at;
    if (fails && fault == Fault::kNeverDone) return LLMC_DEVICE_RUNNING;
    if (jobs.front().ticket != ticket || (timeout == 0 && ++jobs.front().asked <= delay))
      return LLMC_DEVICE_RUNNING;
    const llmc_device_job job = jobs.front().job;
    jobs.pop_front();
    // A device that fails may have changed its rows.
    for (std::uint32_t step = job.first_step; step < job.end_step; ++step)
      job.model->run_step(job.run, step);
    return fails ? LLMC_DEVICE_FAILED : LLMC_DEVICE_DONE;
  }

  llmc_device device;
  std::deque<Job> jobs;
  std::uint64_t submitted = 0, cancelled = 0;
  std::size_t most = 0;
  std::uint32_t delay;
  Fault fault = Fault::kNone;
  std::uint64_t fault_at = 0;  // jobs that succeed before
  llmc_status prepared = LLMC_OK;
  unsigned char* memory = nullptr;
  std::uint64_t memory_bytes = 0;
};

llmc_config with(const FakeDevice& device) {
  llmc_config c = config();
  c.device = &device.device;
  c.device_timeout_ms = 1;
  return c;
}

TEST(Device, BitsDoNotDependOnIt) {
  for (const std::size_t tokens : {1u, 2u, 7u, 8u, 14u, 20u, 41u}) {
    const std::uint64_t expected = after(Session(config(), stepped_model(1)), tokens);
    for (const std::uint32_t in_flight : {1u, 2u, 3u, LLMC_MAX_IN_FLIGHT}) {
      for (const std::uint32_t delay : {0u, 1u, 5u}) {
        FakeDevice device(delay);
        Session session(with(device), stepped_model(in_flight));
        ASSERT_EQ(session.status, LLMC_OK);
        EXPECT_EQ(after(session, tokens), expected) << tokens << " " << in_flight << " " << delay;
        EXPECT_EQ(llmc_device_status(session), LLMC_OK);
        const std::size_t chunks = (tokens + kChunk - 1) / kChunk;
        EXPECT_EQ(device.submitted, tokens == 1 ? 0 : 2 * chunks);
        EXPECT_TRUE(device.jobs.empty());
        EXPECT_TRUE(session.arena.guard_intact());
      }
    }
  }
}

TEST(Device, HasSeveralChunksAtTheSameTime) {
  for (const std::uint32_t in_flight : {1u, 2u, 4u}) {
    FakeDevice device(3);
    Session session(with(device), stepped_model(in_flight));
    after(session, 41);
    EXPECT_EQ(device.most, in_flight);
  }
}

TEST(Device, GetsEmbeddings) {
  const std::vector<float> rows = rows_of(prompt(30));
  FakeDevice device(1);
  Session with_device(with(device), stepped_model(3)), without(config(), stepped_model(1));
  for (llmc_session* const session : {with_device.session, without.session})
    ASSERT_EQ(llmc_append_embeddings(session, rows.data(), 30, nullptr), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(with_device)), hash_logits(llmc_logits(without)));
  EXPECT_GT(device.submitted, 0u);
}

TEST(Device, GetsPositionsOfEmbeddings) {
  std::vector<Positions> places;
  for (std::int32_t i = 0; i < 16; ++i) places.push_back({i / 4, i % 4});
  FakeDevice device(1);
  Session with_device(with(device), stepped_model(3, true));
  const std::vector<std::int32_t> text = prompt(20);
  const Session stepped(config(), stepped_model(1, true));
  for (llmc_session* const session : {with_device.session, stepped.session}) {
    ASSERT_EQ(append_rows(session, prompt(16), places), LLMC_OK);
    ASSERT_EQ(llmc_prefill(session, text.data(), text.size(), nullptr), LLMC_OK);
    ASSERT_EQ(append_rows(session, prompt(4), {places.begin(), places.begin() + 4}), LLMC_OK);
  }
  EXPECT_EQ(hash_logits(llmc_logits(with_device)), hash_logits(llmc_logits(stepped)));
  EXPECT_GT(device.submitted, 0u);
}

TEST(Device, RowsOfTheLastChunkStay) {
  FakeDevice device(1);
  Session with_device(with(device), stepped_model(3)), without(config(), stepped_model(1));
  const std::vector<std::int32_t> ids = prompt(26);
  for (llmc_session* const session : {with_device.session, without.session})
    ASSERT_EQ(llmc_prefill(session, ids.data(), ids.size(), nullptr), LLMC_OK);
  for (std::uint32_t row = 0; row < 26 % kChunk; ++row)
    EXPECT_EQ(hash_logits(llmc_logits_at(with_device, row)),
              hash_logits(llmc_logits_at(without, row)));
}

TEST(Device, FaultsAtEveryJobLeaveTheBits) {
  const std::uint64_t expected = after(Session(config(), stepped_model(1)), 41);
  const std::uint64_t again = after(Session(config(), stepped_model(1)), 20);
  for (const auto fault :
       {FakeDevice::Fault::kRefuse, FakeDevice::Fault::kFail, FakeDevice::Fault::kNeverDone}) {
    for (std::uint64_t at = 0; at < 12; ++at) {
      for (const std::uint32_t in_flight : {1u, 3u}) {
        FakeDevice device(1);
        device.fault = fault;
        device.fault_at = at;
        Session session(with(device), stepped_model(in_flight));
        EXPECT_EQ(after(session, 41), expected) << static_cast<int>(fault) << " " << at;
        EXPECT_EQ(llmc_device_status(session), LLMC_ERROR_DEVICE);
        EXPECT_EQ(device.cancelled, 1u);
        const std::uint64_t submitted = device.submitted;
        llmc_reset(session);
        EXPECT_EQ(after(session, 20), again);
        EXPECT_EQ(device.submitted, submitted);  // the CPU computes everything
      }
    }
  }
}

TEST(Device, CancelledPromptIsRolledBack) {
  for (int chunks = 0; chunks < 6; ++chunks) {
    FakeDevice device(2);
    llmc_config c = with(device);
    int left = chunks;
    c.cancel_user = &left;
    c.cancel = [](void* user) { return --*static_cast<int*>(user) < 0 ? 1 : 0; };
    Session session(c, stepped_model(3));
    const std::vector<std::int32_t> ids = prompt(41);
    std::size_t done = 99;
    EXPECT_EQ(llmc_prefill(session, ids.data(), ids.size(), &done), LLMC_ERROR_CANCELLED);
    EXPECT_EQ(done, 0u);
    EXPECT_EQ(llmc_position(session), 0u);
    EXPECT_TRUE(device.jobs.empty());
    EXPECT_EQ(llmc_device_status(session), LLMC_OK);
    left = 1000;
    EXPECT_EQ(after(session, 41), after(Session(config(), stepped_model(1)), 41));
  }
}

TEST(Device, ACallThatIsCancelledAtOnceChangesNothing) {
  FakeDevice device;
  llmc_config c = with(device);
  int cancels = 0;
  c.cancel_user = &cancels;
  c.cancel = [](void* user) { return *static_cast<int*>(user); };
  Session session(c, stepped_model(2));
  const std::vector<std::int32_t> ids = prompt(20);
  ASSERT_EQ(llmc_prefill(session, ids.data(), 10, nullptr), LLMC_OK);
  const std::size_t rows = llmc_last_chunk(session);
  const std::uint64_t logits = hash_logits(llmc_logits_at(session, 0));
  cancels = 1;
  EXPECT_EQ(llmc_prefill(session, ids.data(), 20, nullptr), LLMC_ERROR_CANCELLED);
  EXPECT_EQ(llmc_last_chunk(session), rows);
  EXPECT_EQ(hash_logits(llmc_logits_at(session, 0)), logits);
}

TEST(Device, SlidesForksAndSequencesHaveTheSameBits) {
  const auto run = [](llmc_session* session) {
    const std::vector<std::int32_t> ids = prompt(kContext);
    std::uint64_t sum = 0;
    const auto add = [&] { sum = mix(sum, hash_logits(llmc_logits(session))); };
    EXPECT_EQ(llmc_prefill(session, ids.data(), 40, nullptr), LLMC_OK);
    add();
    std::uint32_t fork = 0;
    EXPECT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
    EXPECT_EQ(llmc_select(session, fork), LLMC_OK);
    EXPECT_EQ(llmc_rewind(session, 17), LLMC_OK);
    EXPECT_EQ(llmc_prefill(session, ids.data() + 3, 21, nullptr), LLMC_OK);
    add();
    EXPECT_EQ(llmc_select(session, 0), LLMC_OK);
    add();
    EXPECT_EQ(llmc_prefill(session, ids.data() + 1, 30, nullptr), LLMC_OK);  // slides
    add();
    return sum;
  };
  std::uint64_t sums[2];
  for (const bool with_device : {false, true}) {
    FakeDevice device(2);
    llmc_config c = with_device ? with(device) : config();
    c.full_context = LLMC_FULL_SLIDE;
    llmc_model m = stepped_model(3);
    m.sequences = 2;
    m.pool_blocks *= 2;
    m.arena_bytes = llmc_arena_layout_of_model(&m).total;
    sums[with_device] = run(Session(c, m));
    EXPECT_EQ(device.submitted > 0, with_device);
  }
  EXPECT_EQ(sums[0], sums[1]);
}

TEST(Device, IsChecked) {
  FakeDevice device;
  EXPECT_EQ(Session(with(device), model()).status, LLMC_ERROR_DEVICE);  // no steps
  EXPECT_EQ(Session(with(device), stepped_model(2)).status, LLMC_OK);
  device.prepared = LLMC_ERROR_MEMORY;
  EXPECT_EQ(Session(with(device), stepped_model(2)).status, LLMC_ERROR_MEMORY);
  device.prepared = LLMC_OK;
  device.device.abi = LLMC_DEVICE_ABI + 1;
  EXPECT_EQ(Session(with(device), stepped_model(2)).status, LLMC_ERROR_VERSION);
  device.device.abi = LLMC_DEVICE_ABI;
  device.device.submit = nullptr;
  EXPECT_EQ(Session(with(device), stepped_model(2)).status, LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_device_status(nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_device_status(Session(config(), stepped_model(2))), LLMC_ERROR_ARGUMENT);
  for (const std::uint32_t bad : {0u, LLMC_MAX_IN_FLIGHT + 1}) {
    llmc_model m = model();
    m.in_flight = bad;
    m.arena_bytes = llmc_arena_layout_of_model(&m).total;
    EXPECT_EQ(Session(config(), m).status, LLMC_ERROR_MODEL);
  }
  llmc_model m = stepped_model(2);
  m.run_step = nullptr;
  EXPECT_EQ(Session(config(), m).status, LLMC_ERROR_MODEL);
}

}  // namespace
}  // namespace llmc::fake
