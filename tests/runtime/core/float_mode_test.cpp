#include <gtest/gtest.h>

#include <cstdint>

#include "llmc/speculation.h"
#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

#if defined(__x86_64__)
std::uint64_t control() {
  return __builtin_ia32_stmxcsr();
}
void set_control(std::uint64_t bits) {
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(bits));
}
constexpr std::uint64_t kFlags = 0x003f;
constexpr std::uint64_t kModes[] = {1u << 15 /* flush to zero */, 1u << 6 /* denormals are zero */,
                                    1u << 14 /* up */, 1u << 13 /* down */, 3u << 13 /* to zero */};
#elif defined(__aarch64__)
std::uint64_t control() {
  std::uint64_t bits;
  __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
void set_control(std::uint64_t bits) {
  __asm__ volatile("msr fpcr, %0" : : "r"(bits));
}
constexpr std::uint64_t kFlags = 0;  // are in another register
// FZ16 is a bit of processors with half floats, as every target's.
constexpr std::uint64_t kModes[] = {
    1u << 24 /* FZ */,      1u << 19 /* FZ16 */, 1u << 22 /* up */, 2u << 22 /* down */,
    3u << 22 /* to zero */, 1u << 25 /* DN */,   1u << 26 /* AHP */};
#elif defined(__loongarch64)
std::uint64_t control() {
  return __builtin_loongarch_movfcsr2gr(0);
}
void set_control(std::uint64_t bits) {
  __builtin_loongarch_movgr2fcsr(0, static_cast<unsigned>(bits));
}
constexpr std::uint64_t kFlags = 0x001f0000;
constexpr std::uint64_t kModes[] = {1u << 8 /* to zero */, 2u << 8 /* up */, 3u << 8 /* down */};
#endif

/// Control bits of the calling thread's floating point, set until this goes.
class FloatMode {
 public:
  explicit FloatMode(std::uint64_t bits) : before_(control()) { set_control(before_ | bits); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
  ~FloatMode() { set_control(before_); }

 private:
  std::uint64_t before_;
};

TEST(FloatMode, AnythingButTheDefaultIsRefusedAtInit) {
  const llmc_model m = model();
  Arena arena(m.arena_bytes);
  for (const std::uint64_t mode : kModes) {
    llmc_session* session = nullptr;
    llmc_status status = LLMC_OK;
    {
      const FloatMode changed(mode);
      status = llmc_session_init(&m, arena.data(), arena.size(), nullptr, &session);
    }
    EXPECT_EQ(status, LLMC_ERROR_FLOAT_MODE) << mode;
    EXPECT_EQ(session, nullptr);
  }
  llmc_session* session = nullptr;
  const FloatMode flags(kFlags);  // what past operations left there is no mode
  EXPECT_EQ(llmc_session_init(&m, arena.data(), arena.size(), nullptr, &session), LLMC_OK);
}

TEST(FloatMode, AChangeLaterIsRefusedAndChangesNothing) {
  const llmc_model m = model();
  Arena arena(m.arena_bytes);
  llmc_session* session = nullptr;
  ASSERT_EQ(llmc_session_init(&m, arena.data(), arena.size(), nullptr, &session), LLMC_OK);
  const std::int32_t prompt[] = {3, 1, 4};
  ASSERT_EQ(llmc_prefill(session, prompt, 3, nullptr), LLMC_OK);
  const float first = llmc_logits(session)[0];
  for (const std::uint64_t mode : kModes) {
    std::int32_t token = -1;
    {
      const FloatMode changed(mode);
      EXPECT_EQ(llmc_prefill(session, prompt, 3, nullptr), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_sample(session, &token), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_FLOAT_MODE);
      std::size_t count = 0;
      EXPECT_EQ(llmc_step_draft(session, prompt, 3, nullptr, 0, &token, &count),
                LLMC_ERROR_FLOAT_MODE);
      float logprob = 1.0f;
      EXPECT_EQ(llmc_logprob(session, 3, &logprob), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_slide(session, 1, 1), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_slide(session, 1, 2), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_logits(session), nullptr);
    }
    EXPECT_EQ(token, -1);
    EXPECT_EQ(llmc_position(session), 3u);
    EXPECT_EQ(llmc_logits(session)[0], first);
  }
  std::int32_t token = -1;
  EXPECT_EQ(llmc_step(session, &token), LLMC_OK);
}

/// A head whose logits depend on how the thread rounds.
void rounding_head(const llmc_run* run, const float* rows, std::uint32_t count, float* logits,
                   std::uint32_t* best) {
  head(run, rows, count, logits, best);
  for (std::uint32_t i = 0; i < count * kVocab; ++i) {
    volatile float logit = logits[i], third = 3.0f;
    logits[i] = logit / third;
  }
}

TEST(FloatMode, LogitsAreNeverComputedInAnother) {
  llmc_model m = model({.sequences = 2, .batch = 1});
  m.head = rounding_head;
  Session s(config(), m);
  const auto tokens = prompt(9);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 9, nullptr), LLMC_OK);
  const std::uint64_t last = hash_logits(llmc_logits(s));
  const std::uint64_t row = hash_logits(llmc_logits_at(s, 0));  // takes the place of the last
  for (const std::uint64_t mode : kModes) {
    const float *logits, *at, *rows;
    {
      const FloatMode changed(mode);
      logits = llmc_logits(s);
      at = llmc_logits_at(s, 0);
      rows = llmc_logits_rows(s, 0, 1);
    }
    EXPECT_EQ(logits, nullptr) << mode;
    EXPECT_EQ(at, nullptr) << mode;
    EXPECT_EQ(rows, nullptr) << mode;
    EXPECT_EQ(hash_logits(llmc_logits(s)), last) << mode;
    EXPECT_EQ(hash_logits(llmc_logits_rows(s, 0, 1)), row) << mode;
  }
}

}  // namespace
}  // namespace llmc::fake
