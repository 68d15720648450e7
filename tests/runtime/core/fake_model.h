#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "llmc/arena.h"
#include "llmc/llmc.h"
#include "llmc/model.h"

/// A model small enough to reason about: the K and V of a token is a hash of it and its position, a
/// hidden row is a hash over all slots it may see, and logits come from that hash. Any slot lost,
/// misplaced or read too early changes every later logit.
namespace llmc::fake {

constexpr std::uint32_t kVocab = 50;
constexpr std::uint32_t kContext = 45;  // not a whole number of blocks
constexpr std::uint32_t kChunk = 7;
constexpr std::uint32_t kBlock = 8;
constexpr std::uint32_t kThreadsMax = 4;
constexpr std::uint32_t kLanes = 3;  // the work that the worker slots divide

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0xD1B54A32D192ED03u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}

inline std::uint64_t* slot(const llmc_run& run, std::uint32_t position) {
  unsigned char* block =
      run.kv_pool + std::size_t{run.block_table[position / kBlock]} * kBlock * kLanes * 8;
  return reinterpret_cast<std::uint64_t*>(block) + position % kBlock * kLanes;
}

inline std::uint64_t* hidden(const llmc_run& run, std::uint32_t row) {
  return reinterpret_cast<std::uint64_t*>(run.scratch) + std::size_t{row} * kLanes;
}

inline void forward(const llmc_run* run) {
  run->parallel_for(
      run->user,
      [](void* arg, std::uint32_t worker) {
        const llmc_run& r = *static_cast<const llmc_run*>(arg);
        for (std::uint32_t lane = worker; lane < kLanes; lane += r.threads) {
          for (std::uint32_t t = 0; t < r.count; ++t)
            slot(r, r.position + t)[lane] =
                mix(static_cast<std::uint64_t>(r.tokens[t]) << 8 | lane, r.position + t);
        }
      },
      const_cast<llmc_run*>(run), run->threads);
  run->parallel_for(
      run->user,
      [](void* arg, std::uint32_t worker) {
        const llmc_run& r = *static_cast<const llmc_run*>(arg);
        for (std::uint32_t t = worker; t < r.count; t += r.threads)
          for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
            std::uint64_t sum = r.weights[0];
            for (std::uint32_t p = 0; p <= r.position + t; ++p) sum = mix(sum, slot(r, p)[lane]);
            hidden(r, t)[lane] = sum;
          }
      },
      const_cast<llmc_run*>(run), run->threads);
}

inline std::uint32_t head(const llmc_run* run, std::uint32_t row) {
  for (std::uint32_t i = 0; i < kVocab; ++i) {
    std::uint64_t sum = i;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) sum = mix(sum, hidden(*run, row)[lane]);
    run->logits[i] = static_cast<float>(sum >> 40) / 2097152.0f - 4.0f;
  }
  return static_cast<std::uint32_t>(std::max_element(run->logits, run->logits + kVocab) -
                                    run->logits);
}

alignas(64) inline const std::array<unsigned char, 64> kWeights{42};

inline llmc_model model() {
  llmc_model m{};
  m.abi = LLMC_MODEL_ABI;
  m.size = sizeof(llmc_model);
  m.name = "fake";
  m.target = "none";
  m.vocab = kVocab;
  m.ctx = kContext;
  m.chunk = kChunk;
  m.kv_block = kBlock;
  m.threads_max = kThreadsMax;
  m.weights_bytes = kWeights.size();
  m.weights_hash = 0x1234;
  m.scratch_bytes = (kChunk * kLanes * 8 + 63) / 64 * 64;
  m.kv_block_bytes = kBlock * kLanes * 8;
  m.weights = kWeights.data();
  m.forward = forward;
  m.head = head;
  m.arena_bytes = llmc_arena_layout_of_model(&m).total;
  return m;
}

inline llmc_config config() {
  llmc_config c{};
  c.size = sizeof c;
  return c;
}

/// Aligned memory full of NaN bits, with a guard behind it that must stay as it is.
class Arena {
 public:
  explicit Arena(std::size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes + 191) / 64 * 64))) {
    std::fill(data(), data() + (bytes + 191) / 64 * 64, 0xFF);
  }
  unsigned char* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }
  bool guard_intact() const {
    for (std::size_t i = bytes_; i < bytes_ + 64; ++i)
      if (memory_.get()[i] != 0xFF) return false;
    return true;
  }

 private:
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<unsigned char, Free> memory_;
};

/// The fake model in an arena of exactly the size it asks for.
struct Session {
  explicit Session(llmc_config c = config(), llmc_model m = model())
      : description(std::make_unique<llmc_model>(m)), arena(m.arena_bytes) {
    status = llmc_session_init(description.get(), arena.data(), arena.size(), &c, &session);
  }
  operator llmc_session*() const { return session; }

  std::unique_ptr<llmc_model> description;
  Arena arena;
  llmc_session* session = nullptr;
  llmc_status status;
};

inline std::uint64_t hash_logits(const float* logits) {
  if (logits == nullptr) return 0;
  std::uint64_t sum = 1;
  for (std::uint32_t i = 0; i < kVocab; ++i)
    sum = mix(sum, std::bit_cast<std::uint32_t>(logits[i]));
  return sum;
}

inline std::vector<std::int32_t> prompt(std::size_t n) {
  std::vector<std::int32_t> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<std::int32_t>(mix(i, 7) % kVocab);
  return tokens;
}

}  // namespace llmc::fake
