#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace llmc::exec {

/// Whether a model's weights and arenas are put into huge pages.
enum class HugePages : std::uint8_t { kNever, kAuto, kAlways };

/// Minimum size in bytes of weights that kAuto moves. Copying smaller weights takes as much time as
/// huge pages save.
inline constexpr std::uint64_t kMinHugeWeights = std::uint64_t{32} << 20;
/// Minimum size in bytes of arenas for which kAuto requests huge pages. In a huge page, unused
/// parts of a small arena would use memory.
inline constexpr std::uint64_t kMinHugeArena = std::uint64_t{16} << 20;

struct HugePageOptions {
  HugePages when = HugePages::kNever;
  bool few_tokens = false;  // kAuto: whether the tokens are too few to recover the time of copying
};

/// How huge pages are used.
struct HugePageUse {
  std::uint64_t weights = 0;  // bytes of weights in huge pages, which are memory of this process
  double seconds = 0;         // time to copy them
  bool arena = false;         // whether arenas request huge pages
  std::string reason;         // why not all weights were moved; empty if all were, or for kNever
};

/// Moves the weights of a loaded model into huge pages, if the kernel has them. With kAuto, does so
/// only if the weights have at least kMinHugeWeights bytes, memory for twice the weights and an
/// arena is available, and options.few_tokens is false. Arenas request huge pages with kAlways, or
/// from kMinHugeArena bytes on. `arena_bytes`: size of a session's arena.
HugePageUse use_huge_pages(HugePageOptions options, std::span<const std::byte> weights,
                           std::uint64_t arena_bytes);

}  // namespace llmc::exec
