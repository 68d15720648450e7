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

/// What was done.
struct HugePageUse {
  std::uint64_t weights = 0;  // bytes of weights in huge pages, which are memory of this process
  double seconds = 0;         // time to copy them
  bool arena = false;         // whether arenas request huge pages
  std::string reason;         // why weights are not moved, or not all; empty if they are
};

/// Moves the weights of a loaded model into huge pages, if `choice` says so: kAlways, if the kernel
/// has huge pages; kAuto, also only if the weights are large and twice their memory is available.
HugePageUse use_huge_pages(HugePages choice, std::span<const std::byte> weights,
                           std::uint64_t arena_bytes);

}  // namespace llmc::exec
