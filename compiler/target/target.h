#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

/// The table of compilation targets, as plain data. A new target is a row in target.cpp and a SIMD
/// header in templates/llmc/simd/ (docs/adding-a-target.md).
namespace llmc::target {

/// CPU features that a target's code needs beyond the baseline of its triple.
enum class Feature : std::uint8_t {
  kAvx2,
  kFma,
  kF16c,
  kAvxVnni,
  kAvx512f,
  kAvx512bw,
  kAvx512vl,
  kAvx512dq,
  kAvx512Vnni,
  kAmxTile,
  kAmxInt8,
  kDotProduct,
  kI8mm,
  kLasx
};
std::string_view to_string(Feature feature);  // "avx2", as in /proc/cpuinfo

enum class Architecture : std::uint8_t { kX86_64, kAarch64, kLoongArch64 };

/// Optimization level of a model's code; the results have the same bits on all levels.
/// 1: reference: generic vectors at the architecture's baseline, one result at a time.
/// 2: the target's instructions, one panel and one token at a time.
/// 3: the same, in tiles that fill registers and caches.
inline constexpr std::uint32_t kMaxOptLevel = 3;

struct Target {
  std::string_view name;
  std::span<const std::string_view> aliases;
  std::string_view description;  // one line for `llmc targets`
  Architecture architecture;
  std::string_view triple;  // clang's --target=
  /// Flags for the model's source only. The runtime core is compiled for the baseline of the
  /// triple, so that it is the same in all libraries of an architecture.
  std::span<const std::string_view> model_flags;
  std::span<const std::string_view> core_flags;  // baseline flags of the triple, for all sources
  std::span<const Feature> features;
  /// Freestanding function `int f(void)` of templates/llmc/cpu.h that returns whether this CPU has
  /// `features`.
  std::string_view cpu_check;
  using Check = int (*)();
  Check check_here;  // that function, if the compiler itself runs on `architecture`, else nullptr
  /// qemu's user-mode program for the architecture, and a CPU with `features` and few others, so
  /// that unexpected instructions are detected. Empty if qemu emulates no such CPU.
  std::string_view emulator, emulated_cpu;
  std::string_view simd_define;  // macro that selects the SIMD header; empty: generic
  std::string_view tiles;  // header with the sizes of its tiles; empty: they are in the SIMD header

  std::uint32_t lanes;        // floats per vector
  std::uint32_t token_group;  // hP: tokens of K that are adjacent in lanes

  /// Default of --chunk: prompt tokens per forward pass. Scratch grows with it, so targets for
  /// microcontrollers have few; with more tokens, the cost per chunk (reading and unpacking
  /// weights, reading the cache) is shared by more of them.
  std::uint32_t chunk = 32;

  /// Whether machines of this kind usually mix fast and slow cores: stages then distribute work
  /// dynamically unless the application declares its cores even.
  bool uneven_cores = false;

  std::uint32_t opt_level = kMaxOptLevel;  // 1 to kMaxOptLevel
};

/// Returns all targets at the highest level, generic first.
std::span<const Target> all();

/// Returns a target by name or alias; "native" is best_here(). The error (kUsage) lists the targets
/// and suggests one. A target at a lower level is a separate row; at level 1 it has no flags,
/// features and SIMD header.
Result<const Target*> find(std::string_view name, std::uint32_t opt_level = kMaxOptLevel);

/// Returns the name for messages and comments: "avx2", or below the highest level "avx2 at level
/// 2".
std::string described(const Target& target);

/// Returns the architecture of this process.
Architecture host_architecture();

/// Returns whether this process can execute the target's code: the architecture matches and the
/// check of its libraries passes.
bool runs_here(const Target& target);

/// Returns the target for libraries that are distributed: the one of this machine's architecture
/// that most of its CPUs can execute, whether or not this one can.
const Target& portable_here();

/// Returns the widest target that this process can execute.
const Target& best_here();

}  // namespace llmc::target
