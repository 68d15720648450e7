#if defined(__x86_64__)
#include <gtest/gtest.h>
#include <immintrin.h>

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

/// Control bits of the calling thread's floating point, set until this goes.
class FloatMode {
 public:
  explicit FloatMode(unsigned bits) : before_(_mm_getcsr()) { _mm_setcsr(before_ | bits); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
  ~FloatMode() { _mm_setcsr(before_); }

 private:
  unsigned before_;
};

constexpr unsigned kModes[] = {_MM_FLUSH_ZERO_ON, 0x0040 /* denormals are zero */, _MM_ROUND_UP,
                               _MM_ROUND_DOWN, _MM_ROUND_TOWARD_ZERO};

TEST(FloatMode, AnythingButTheDefaultIsRefusedAtInit) {
  const llmc_model m = model();
  Arena arena(m.arena_bytes);
  for (const unsigned mode : kModes) {
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
  const FloatMode flags(0x003f);  // what past operations left there is no mode
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
  for (const unsigned mode : kModes) {
    std::int32_t token = -1;
    {
      const FloatMode changed(mode);
      EXPECT_EQ(llmc_prefill(session, prompt, 3, nullptr), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_sample(session, &token), LLMC_ERROR_FLOAT_MODE);
      EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_FLOAT_MODE);
    }
    EXPECT_EQ(token, -1);
    EXPECT_EQ(llmc_position(session), 3u);
    EXPECT_EQ(llmc_logits(session)[0], first);
  }
  std::int32_t token = -1;
  EXPECT_EQ(llmc_step(session, &token), LLMC_OK);
}

}  // namespace
}  // namespace llmc::fake
#endif
