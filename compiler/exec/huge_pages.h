#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace llmc::exec {

/// Whether a model's weights and arenas are put into huge pages.
enum class HugePages : std::uint8_t { kNever, kAuto, kAlways };

/// Weights below this size are not moved by kAuto: copying them takes as long as what they save.
inline constexpr std::uint64_t kMinHugeWeights = std::uint64_t{32} << 20;
/// The same for arenas, whose unused parts would use memory.
inline constexpr std::uint64_t kMinHugeArena = std::uint64_t{16} << 20;

struct HugePageOptions {
  HugePages when = HugePages::kNever;
  bool few_tokens = false;  // too few to gain what copying the weights takes
};

/// What was done.
struct HugePageUse {
  std::uint64_t weights = 0;  // bytes of weights in huge pages, which are memory of this process
  double seconds = 0;         // time to copy them
  bool arena = false;         // whether arenas request huge pages
  std::string reason;         // why weights are not moved, or not all; empty if they are
};

/// Moves the weights of a loaded model into huge pages, if the options say so: kAlways, if the
/// kernel has huge pages; kAuto, also only if the weights are large, twice their memory is
/// available and more than a few tokens are expected.
HugePageUse use_huge_pages(HugePageOptions options, std::span<const std::byte> weights,
                           std::uint64_t arena_bytes);

}  // namespace llmc::exec
