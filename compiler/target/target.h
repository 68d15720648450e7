#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

/// What code can be made for: one table of plain data. A new target is a row in target.cpp and a
/// SIMD header in templates/llmc/simd/ (docs/adding-a-target.md).
namespace llmc::target {

/// CPU features a target's code needs, beyond the baseline of its triple.
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
std::string_view to_string(Feature feature);  // "avx2", as /proc/cpuinfo has it

enum class Architecture : std::uint8_t { kX86_64, kAarch64, kLoongArch64 };

/// How much a model's code does for speed; the bits of its results are the same on all levels.
/// 1: reference: the generic vocabulary at the architecture's baseline, one result at a time.
/// 2: the target's instructions, still one panel and one token at a time.
/// 3: the same in tiles that keep registers and caches full.
inline constexpr std::uint32_t kMaxOptLevel = 3;

struct Target {
  std::string_view name;
  std::span<const std::string_view> aliases;
  std::string_view description;  // one line for `llmc targets`
  Architecture architecture;
  std::string_view triple;  // clang's --target=
  /// Flags of the model's source only: the runtime core is built for the baseline of the triple, so
  /// that it is the same in every library of an architecture.
  std::span<const std::string_view> model_flags;
  std::span<const std::string_view> core_flags;  // baseline flags of the triple, for all sources
  std::span<const Feature> features;
  /// Freestanding function `int f(void)` of templates/llmc/cpu.h that says whether this CPU has
  /// `features`.
  std::string_view cpu_check;
  using Check = int (*)();
  Check check_here;  // that function, where the compiler itself is of `architecture`, else nullptr
  /// Program of qemu's user mode for the architecture, and a processor that has `features` and
  /// little beside them, so that instructions that do not belong into the code are caught. Empty
  /// where qemu emulates no such processor.
  std::string_view emulator, emulated_cpu;
  std::string_view simd_define;  // macro that selects the SIMD header; empty: generic
  std::string_view tiles;        // header with the sizes of its tiles; empty: they are in that one

  std::uint32_t lanes;        // floats of a vector
  std::uint32_t token_group;  // hP: tokens of K side by side in lanes

  /// Tokens of a prompt run at once unless --chunk says. Scratch grows with it, so targets of
  /// controllers have few; more tokens share what a chunk costs: reading and unpacking weights,
  /// reading the cache.
  std::uint32_t chunk = 32;

  /// Whether machines of this kind mix fast and slow cores, as a rule: stages then hand out tickets
  /// unless the application says that its cores are even.
  bool uneven_cores = false;

  std::uint32_t opt_level = kMaxOptLevel;  // 1 to kMaxOptLevel
};

/// All targets at the highest level, generic first.
std::span<const Target> all();

/// By name or alias; "native" is best_here(). The error (kUsage) lists what there is and suggests
/// one. At a lower level it is a row of its
/// own: at level 1 without flags, features and SIMD header, whatever the target.
Result<const Target*> find(std::string_view name, std::uint32_t opt_level = kMaxOptLevel);

/// For messages and comments: "avx2", or below the highest level "avx2 at level 2".
std::string described(const Target& target);

/// Of this process.
Architecture host_architecture();

/// Whether this process can execute the target's code: the architecture, and the check that its
/// libraries make too.
bool runs_here(const Target& target);

/// The target of this machine's architecture that most of its processors can execute, whatever this
/// one can: what a library that is given away is compiled for.
const Target& portable_here();

/// The widest of the targets that this process can execute.
const Target& best_here();

}  // namespace llmc::target
