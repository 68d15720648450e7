#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

using testing::ElementsAre;

/// What llmc_session_init says, and the lines it logs.
struct Attempt {
  explicit Attempt(const llmc_model& m, llmc_config c = config(), std::size_t offset = 0,
                   std::size_t short_by = 0)
      : arena(static_cast<std::size_t>(m.arena_bytes) + 64) {
    c.log = [](void* user, int, const char* text) {
      static_cast<std::vector<std::string>*>(user)->emplace_back(text);
    };
    c.log_user = &log;
    session = reinterpret_cast<llmc_session*>(&c);  // must come back NULL on error
    status = llmc_session_init(&m, arena.data() + offset,
                               static_cast<std::size_t>(m.arena_bytes) - short_by, &c, &session);
    EXPECT_EQ(session == nullptr, status != LLMC_OK);
  }
  Arena arena;
  std::vector<std::string> log;
  llmc_session* session;
  llmc_status status;
};

TEST(SessionInit, ArenaOfExactlyTheStatedSize) {
  const llmc_model m = model();
  EXPECT_EQ(Attempt(m).status, LLMC_OK);
  const Attempt small(m, config(), 0, 1);
  EXPECT_EQ(small.status, LLMC_ERROR_ARENA_SMALL);
  EXPECT_THAT(small.log, ElementsAre("the arena has " + std::to_string(m.arena_bytes - 1) +
                                     " bytes; this model needs " + std::to_string(m.arena_bytes)));
  for (const std::size_t offset : {1u, 4u, 32u, 63u}) {
    EXPECT_EQ(Attempt(m, config(), offset).status, LLMC_ERROR_ARENA_ALIGNMENT) << offset;
  }
  EXPECT_EQ(Attempt(m, config(), 64).status, LLMC_OK);
}

TEST(SessionInit, RefusesModelsOfOtherVersionsOrThatContradictThemselves) {
  const auto status_of = [](auto change) {
    llmc_model m = model();
    change(m);
    Arena arena(model().arena_bytes);
    llmc_session* session = nullptr;
    return llmc_session_init(&m, arena.data(), arena.size(), nullptr, &session);
  };
  // The arena would be of the right size.
  const auto resized = [](auto change) {
    return [change](llmc_model& m) {
      change(m);
      m.arena_bytes = llmc_arena_layout_of_model(&m).total;
    };
  };
  EXPECT_EQ(status_of([](llmc_model&) {}), LLMC_OK);
  EXPECT_EQ(status_of([](llmc_model& m) { ++m.abi; }), LLMC_ERROR_VERSION);
  EXPECT_EQ(status_of([](llmc_model& m) { m.size -= 8; }), LLMC_ERROR_VERSION);
  EXPECT_EQ(status_of([](llmc_model& m) { m.arena_bytes += 64; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) { m.kv_block = 0; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) { m.chunk = 0; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) { m.vocab = 0; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) { m.threads_max = 0; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.hidden = 0; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.sequences = 0; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.batch = 0; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.batch = m.chunk + 1; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.pool_blocks = 0; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.hidden_offset = 64; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.kv_block_bytes = 0; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) { m.forward = nullptr; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) { m.kv_block_bytes = UINT64_MAX - 63; }), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of(resized([](llmc_model& m) { m.state_bytes = 32; })), LLMC_ERROR_MODEL);
  EXPECT_EQ(status_of([](llmc_model& m) {
              m.ctx = UINT32_MAX;
              m.kv_block = 1;
              m.arena_bytes = llmc_arena_layout_of_model(&m).total;
            }),
            LLMC_ERROR_ARENA_SMALL);
}

/// Pages of the cache and of scratch belong to the worker that computes what is in them, and are
/// near it where memory has places: nobody may write them before.
TEST(SessionInit, LeavesTheMemoryOfWorkersUntouched) {
  const Session session;
  ASSERT_EQ(session.status, LLMC_OK);
  const llmc_arena_layout at = llmc_arena_layout_of_model(session.description.get());
  const unsigned char* const arena = session.arena.data();
  EXPECT_EQ(std::count(arena + at.logits, arena + at.total, 0xFF),
            static_cast<std::ptrdiff_t>(at.total - at.logits));
}

TEST(SessionInit, NullPointers) {
  const llmc_model m = model();
  Arena arena(m.arena_bytes);
  llmc_session* session = nullptr;
  EXPECT_EQ(llmc_session_init(nullptr, arena.data(), arena.size(), nullptr, &session),
            LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_session_init(&m, nullptr, arena.size(), nullptr, &session), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_session_init(&m, arena.data(), arena.size(), nullptr, nullptr),
            LLMC_ERROR_ARGUMENT);
}

TEST(SessionInit, CpuWithoutTheTargetsInstructions) {
  llmc_model m = model();
  m.cpu_supported = [] { return 0; };
  const Attempt refused(m);
  EXPECT_EQ(refused.status, LLMC_ERROR_CPU);
  EXPECT_THAT(refused.log, ElementsAre("this CPU lacks instructions of the target none"));
  m.cpu_supported = [] { return 1; };
  EXPECT_EQ(Attempt(m).status, LLMC_OK);
}

TEST(SessionInit, Threads) {
  const llmc_model m = model();
  llmc_config c = config();
  c.threads = kThreadsMax;
  EXPECT_EQ(llmc_thread_count(Attempt(m, c).session), kThreadsMax);
  c.threads = kThreadsMax + 1;
  EXPECT_EQ(Attempt(m, c).status, LLMC_ERROR_THREADS);
  c.threads = 0;
  c.parallel_for = [](void*, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
    for (std::uint32_t i = n; i-- > 0;) fn(arg, i);
  };
  EXPECT_EQ(llmc_thread_count(Attempt(m, c).session), kThreadsMax);
}

TEST(SessionInit, CoresAreThoseOfTheTargetUnlessTheConfigurationSays) {
  const auto uneven_run = [](std::uint32_t of_target, std::uint32_t cores) {
    static bool uneven;
    llmc_model m = model();
    m.uneven_cores = of_target;
    m.forward = [](const llmc_run* run) { uneven = run->uneven != 0; };
    m.head = [](const llmc_run*, const float*, std::uint32_t, float*, std::uint32_t* best) {
      *best = 0;
    };
    llmc_config c = config();
    c.cores = cores;
    const Attempt attempt(m, c);
    const std::int32_t token = 1;
    EXPECT_EQ(llmc_prefill(attempt.session, &token, 1, nullptr), LLMC_OK);
    return uneven;
  };
  EXPECT_FALSE(uneven_run(0, LLMC_CORES_OF_TARGET));
  EXPECT_TRUE(uneven_run(1, LLMC_CORES_OF_TARGET));
  EXPECT_TRUE(uneven_run(0, LLMC_CORES_UNEVEN));
  EXPECT_FALSE(uneven_run(1, LLMC_CORES_EVEN));
  llmc_config c = config();
  c.cores = 3;
  EXPECT_EQ(Attempt(model(), c).status, LLMC_ERROR_ARGUMENT);
}

TEST(SessionInit, ConfigurationsOfOtherVersions) {
  const llmc_model m = model();
  Arena arena(m.arena_bytes);
  const auto init = [&](const void* c) {
    llmc_session* session = nullptr;
    return llmc_session_init(&m, arena.data(), arena.size(), static_cast<const llmc_config*>(c),
                             &session);
  };
  llmc_config c = config();
  c.size = 0;
  EXPECT_EQ(init(&c), LLMC_ERROR_VERSION);
  c.size = SIZE_MAX;
  EXPECT_EQ(init(&c), LLMC_ERROR_VERSION);
  // An older header: bytes past its end must not be read.
  c = config();
  c.size = offsetof(llmc_config, weights);
  c.weights = &c;
  c.sampling.temperature = NAN;
  EXPECT_EQ(init(&c), LLMC_OK);
  // A newer header: unknown fields are fine while they ask for nothing.
  struct {
    llmc_config known = config();
    std::uint64_t unknown = 0;
  } newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(init(&newer), LLMC_OK);
  newer.unknown = 1;
  EXPECT_EQ(init(&newer), LLMC_ERROR_VERSION);
  // A program of an older version has no device; what lies after its struct is not read.
  c = config();
  c.size = offsetof(llmc_config, device);
  c.device = reinterpret_cast<const llmc_device*>(std::uintptr_t{1});
  EXPECT_EQ(init(&c), LLMC_OK);
}

TEST(SessionInit, SamplingParameters) {
  const llmc_model m = model();
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (float llmc_sampling::* field :
         {&llmc_sampling::temperature, &llmc_sampling::top_p, &llmc_sampling::min_p}) {
      llmc_config c = config();
      c.sampling.*field = bad;
      EXPECT_EQ(Attempt(m, c).status, LLMC_ERROR_SAMPLING);
    }
  }
  llmc_config c = config();
  c.sampling.reserved[std::size(c.sampling.reserved) - 1] = 1;
  EXPECT_EQ(Attempt(m, c).status, LLMC_ERROR_VERSION);
}

TEST(SessionInit, WeightsFromOutside) {
  llmc_model m = model();
  m.weights = nullptr;
  struct alignas(64) File {
    llmc_weights_header header{};
    unsigned char weights[64] = {42};
    unsigned char more[64] = {};
  } file;
  std::memcpy(file.header.magic, LLMC_WEIGHTS_MAGIC, 8);
  file.header.bytes = m.weights_bytes;
  file.header.hash = m.weights_hash;
  const auto status_of = [&](const void* weights, std::size_t bytes) {
    llmc_config c = config();
    c.weights = weights;
    c.weights_bytes = bytes;
    return Attempt(m, c).status;
  };
  EXPECT_EQ(status_of(&file, 128), LLMC_OK);
  EXPECT_EQ(status_of(nullptr, 128), LLMC_ERROR_WEIGHTS);
  EXPECT_EQ(status_of(&file, 127), LLMC_ERROR_WEIGHTS);
  EXPECT_EQ(status_of(&file, 129), LLMC_ERROR_WEIGHTS);
  EXPECT_EQ(status_of(&file, 10), LLMC_ERROR_WEIGHTS);
  EXPECT_EQ(status_of(reinterpret_cast<char*>(&file) + 8, 128), LLMC_ERROR_WEIGHTS);
  file.header.hash ^= 1;
  EXPECT_EQ(status_of(&file, 128), LLMC_ERROR_WEIGHTS);
  file.header.hash ^= 1;
  file.header.magic[0] = 'L';
  EXPECT_EQ(status_of(&file, 128), LLMC_ERROR_WEIGHTS);

  // The model reads them past the header: same logits as with the same weights embedded.
  file.header.magic[0] = 'l';
  llmc_config c = config();
  c.weights = &file;
  c.weights_bytes = 128;
  const Session outside(c, m);
  const Session embedded;
  ASSERT_EQ(llmc_append(outside, 3), LLMC_OK);
  ASSERT_EQ(llmc_append(embedded, 3), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(outside)), hash_logits(llmc_logits(embedded)));
}

TEST(ArenaLayout, PartsFollowEachOtherAligned) {
  const llmc_arena_layout at = llmc_arena_layout_of({.vocab = 7,
                                                     .hidden = 17,
                                                     .ctx = 17,
                                                     .sequences = 2,
                                                     .batch = 3,
                                                     .kv_block = 8,
                                                     .pool_blocks = 5,
                                                     .scratch_bytes = 64,
                                                     .kv_block_bytes = 256,
                                                     .sources = 5,
                                                     .source_bytes = 100,
                                                     .state_bytes = 192,
                                                     .in_flight = 2});
  EXPECT_EQ(at.blocks_of_sequence, 3u);
  EXPECT_EQ(at.last_row_bytes, 128u);
  EXPECT_EQ(at.sequences, LLMC_SESSION_BYTES);
  EXPECT_EQ(at.block_tables, at.sequences + 2 * LLMC_SEQUENCE_BYTES);
  EXPECT_EQ(at.last_rows, at.block_tables + 64);  // 2 x 3 addresses
  EXPECT_EQ(at.block_users, at.last_rows + 2 * 128);
  EXPECT_EQ(at.free_blocks, at.block_users + 64);
  EXPECT_EQ(at.segments, at.free_blocks + 64);
  EXPECT_EQ(at.logits_notes, at.segments + 192);  // 3 of 48 bytes
  EXPECT_EQ(at.logits, at.logits_notes + 64);
  EXPECT_EQ(at.candidates, at.logits + 128);  // 3 x 7 floats
  EXPECT_EQ(at.tokens, at.candidates + 64);
  EXPECT_EQ(at.scratch, (at.tokens + 128 + 4095) / 4096 * 4096);  // 17 + 3 ids; a page
  EXPECT_EQ(at.source_notes, at.scratch + 2 * 64);                // of two chunks
  EXPECT_EQ(at.sources, at.source_notes + 128);                   // 5 of 16 bytes
  EXPECT_EQ(at.states, at.sources + 512);                         // 5 of 100 bytes
  EXPECT_EQ(at.kv_pool, at.states + 2 * 192);
  EXPECT_EQ(at.total, at.kv_pool + 5 * 256);
  // A single chunk follows the tokens directly.
  constexpr llmc_arena_layout one =
      llmc_arena_layout_of({10, 6, 10, 1, 1, 10, 1, 64, 64, 0, 0, 0, 1});
  static_assert(one.total % LLMC_ALIGNMENT == 0);
  EXPECT_EQ(one.scratch, one.tokens + 64);
}

TEST(ArenaLayout, HugeNumbersSaturate) {
  constexpr std::uint32_t kMaxValue = UINT32_MAX;
  constexpr std::uint64_t kHalf = UINT64_MAX / 2;
  EXPECT_EQ(llmc_arena_layout_of({1, 1, 8, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1}).total, UINT64_MAX);
  EXPECT_EQ(llmc_arena_layout_of({1, 1, 8, 1, 1, 8, 1, UINT64_MAX, 64, 0, 0, 0, 1}).total,
            UINT64_MAX);
  EXPECT_EQ(llmc_arena_layout_of({1, 1, 16, 1, 1, 8, 2, 64, kHalf, 0, 0, 0, 1}).total, UINT64_MAX);
  EXPECT_EQ(llmc_arena_layout_of(
                {kMaxValue, kMaxValue, kMaxValue, 1, 1, 1, kMaxValue, 64, kHalf, 0, 0, 0, 1})
                .total,
            UINT64_MAX);
  EXPECT_EQ(llmc_arena_layout_of({1, 1, kMaxValue, kMaxValue, 1, 1, 1, 64, 64, 0, 0, 0, 1}).total,
            UINT64_MAX);
  EXPECT_EQ(llmc_arena_layout_of({kMaxValue, 1, 8, 1, kMaxValue, 8, 1, 64, 64, 0, 0, 0, 1}).total,
            UINT64_MAX);
  EXPECT_LT(llmc_arena_layout_of(
                {kMaxValue, kMaxValue, kMaxValue, 1, 1, 1, kMaxValue, 64, 1 << 20, 0, 0, 0, 1})
                .total,
            UINT64_MAX);
}

}  // namespace
}  // namespace llmc::fake
