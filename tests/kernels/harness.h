#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "llmc/kernels.h"

/// What the kernel tests share: seeded inputs, 64-byte aligned memory with nothing around it (the
/// address sanitizer sees the ends), a llmc_run with real threads.
namespace llmc::test {

/// Whether an emulator runs this, which takes long over floats.
#ifdef LLMC_TESTS_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

/// SplitMix64 (Steele et al. 2014): same seed, same values anywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [-1, 1), a multiple of 2^-23.
  float uniform() {
    return static_cast<float>(static_cast<std::int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23f;
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() % n); }

 private:
  std::uint64_t state_;
};

/// Exactly `count` elements on a 64-byte boundary.
template <class T>
class Aligned {
 public:
  explicit Aligned(std::size_t count, unsigned char fill = 0)
      : count_(count),
        memory_(static_cast<T*>(std::aligned_alloc(64, round_up(count * sizeof(T), 64)))) {
    std::memset(static_cast<void*>(memory_.get()), fill, round_up(count * sizeof(T), 64));
  }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return memory_.get()[i]; }
  const T& operator[](std::size_t i) const { return memory_.get()[i]; }
  bool operator==(const Aligned& other) const {
    return count_ == other.count_ && std::memcmp(data(), other.data(), count_ * sizeof(T)) == 0;
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::size_t count_;
  std::unique_ptr<T, Free> memory_;
};

inline Aligned<float> random_floats(std::size_t count, std::uint64_t seed, float scale = 1) {
  Random random(seed);
  Aligned<float> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = scale * random.uniform();
  return result;
}

inline void run_threads(void*, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
  std::vector<std::thread> threads;
  for (std::uint32_t i = 1; i < n; ++i) threads.emplace_back(fn, arg, i);
  fn(arg, 0);
  for (std::thread& thread : threads) thread.join();
}
/// Last slot first, one after the other: what a single-threaded host may do.
inline void run_backwards(void*, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
  for (std::uint32_t i = n; i-- > 0;) fn(arg, i);
}

/// A run of one sequence, or of those of the segments that are given.
class TestRun : public llmc_run {
 public:
  TestRun(std::uint32_t count, std::uint32_t threads, std::uint32_t position)
      : TestRun(threads, {{nullptr, 0, count, position, 0, nullptr, nullptr, 0, 0}}) {}
  TestRun(std::uint32_t threads, std::vector<llmc_segment> parts)
      : llmc_run{}, parts_(std::move(parts)) {
    segments = parts_.data();
    segment_count = static_cast<std::uint32_t>(parts_.size());
    count = parts_.back().row + parts_.back().rows;
    this->threads = threads;
    parallel_for = threads == 3 || threads == 4 ? run_threads : run_backwards;
    uneven = threads == 4;
  }
  TestRun(const TestRun&) = delete;
  TestRun& operator=(const TestRun&) = delete;

  llmc_segment& segment() { return parts_[0]; }

 private:
  std::vector<llmc_segment> parts_;
};

/// 3: even cores, 4: uneven ones, both with threads of their own; any other number: one thread.
inline TestRun make_run(std::uint32_t count, std::uint32_t threads, std::uint32_t position = 0) {
  return {count, threads, position};
}

inline std::uint32_t bits_of(float x) {
  return float_bits(x);
}

}  // namespace llmc::test
