#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "llmc/device.h"
#include "tests/runtime/core/fake_model.h"

/// The fake model in steps, of which a device computes regions.
namespace llmc::fake {

inline constexpr std::uint64_t kAreaOffset = (kChunk * kLanes * 8 + 63) / 64 * 64;
inline constexpr std::uint32_t kSteps = 5;
inline constexpr std::uint16_t kRegions[kSteps] = {0, 1, 2, 0, 1};

inline std::uint64_t* area(const llmc_run& run) {
  return reinterpret_cast<std::uint64_t*>(run.scratch + kAreaOffset);
}

/// The CPU writes a number for every row, two regions change it, the CPU checks it and runs the
/// rest of the model, and a last region changes the rows.
template <bool positions = false>
void run_step(const llmc_run* run, std::uint32_t step) {
  std::uint64_t* const numbers = area(*run);
  for (std::uint32_t t = 0; t < run->count; ++t) {
    if (step == 0) numbers[t] = value_of(*run, t);
    if (step == 1 || step == 2) numbers[t] = mix(numbers[t], step);
    if (step == 3 && numbers[t] != mix(mix(value_of(*run, t), 1), 2)) std::abort();
    if (step == 4) hidden(*run, t)[0] = mix(hidden(*run, t)[0], 4);
  }
  if (step == 3) forward<kBlock, positions>(run);
}
template <bool positions = false>
void all_steps(const llmc_run* run) {
  for (std::uint32_t step = 0; step < kSteps; ++step) run_step<positions>(run, step);
}

/// `positions`: as in Sizes.
inline llmc_model stepped_model(std::uint32_t in_flight, bool positions = false) {
  llmc_model m = model({.positions = positions});
  m.scratch_bytes = kAreaOffset + 64;
  m.steps = kSteps;
  m.in_flight = in_flight;
  m.step_regions = kRegions;
  m.forward = positions ? all_steps<true> : all_steps<false>;
  m.run_step = positions ? run_step<true> : run_step<false>;
  m.run_in_flight = llmc_run_in_flight;
  m.arena_bytes = llmc_arena_layout_of_model(&m).total;
  return m;
}

/// The hash of the logits after a prompt and three more tokens.
inline std::uint64_t after(llmc_session* session, std::size_t tokens) {
  const std::vector<std::int32_t> ids = prompt(tokens);
  EXPECT_EQ(llmc_prefill(session, ids.data(), ids.size(), nullptr), LLMC_OK);
  std::uint64_t sum = hash_logits(llmc_logits(session));
  for (int i = 0; i < 3; ++i) {
    std::int32_t token = -1;
    EXPECT_EQ(llmc_step(session, &token), LLMC_OK);
    sum = mix(sum, hash_logits(llmc_logits(session)));
  }
  return sum;
}

}  // namespace llmc::fake
