#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

/// The table of compilation targets, as plain data. The name of a target also selects its SIMD
/// header in templates/llmc/simd/, with "_" for "-" (docs/adding-a-target.md).
namespace llmc::target {

enum class Architecture : std::uint8_t { kX86_64, kAarch64, kLoongArch64 };

/// Maximum optimization level of a model's code. All levels give the same bits.
/// 1: reference: generic vectors at the architecture's baseline, one result at a time.
/// 2: the target's instructions, one panel and one token at a time.
/// 3: like 2, in tiles that fill registers and caches.
inline constexpr std::uint32_t kMaxOptLevel = 3;

struct Target {
  std::string_view name;
  std::span<const std::string_view> aliases;
  std::string_view description;  // one line for `llmc targets`
  Architecture architecture;
  std::string_view triple;  // clang's --target=
  /// Flags for the model's source only. The runtime core is compiled for the triple's baseline, so
  /// that it is the same in all libraries of an architecture.
  std::span<const std::string_view> model_flags = {};
  std::span<const std::string_view> core_flags;  // flags for all sources: the triple's baseline
  /// CPU features that the model's code needs in addition to the baseline, as in /proc/cpuinfo.
  std::span<const std::string_view> features = {};
  /// Freestanding function `int f(void)` of templates/llmc/cpu.h that returns whether the current
  /// CPU has all of `features`.
  std::string_view cpu_check;
  using Check = int (*)();
  Check check_here;  // `cpu_check`; nullptr if it is not defined for the compiler's own CPU
  /// qemu's user-mode program for the architecture, and a CPU model that has `features` and few
  /// others, so that instructions of other features are detected. Empty if qemu has no such CPU
  /// model.
  std::string_view emulator = {}, emulated_cpu = {};
  std::string_view tiles;  // header with the target's tile sizes; empty: see the SIMD header

  std::uint32_t lanes;            // floats per vector
  std::uint32_t token_group = 8;  // number of tokens whose cached keys are stored in adjacent lanes

  /// Default of --chunk: prompt tokens per forward pass. More tokens share the fixed cost of a
  /// chunk (reading and unpacking weights, reading the cache) but need more scratch memory, so only
  /// targets whose machines have ample memory have a larger value.
  std::uint32_t chunk = 32;

  /// Whether CPUs of this target usually mix fast and slow cores. If so, stages distribute work
  /// dynamically unless the application declares that its cores are equal.
  bool uneven_cores = false;

  std::uint32_t opt_level = kMaxOptLevel;  // 1 to kMaxOptLevel
};

/// Returns all targets at the highest level; generic is the first.
std::span<const Target> all();

/// Returns the target with this name or alias; "native" means best_here(). At level 1 the target
/// has no `model_flags` and no `features`. Fails with kUsage if there is no such level or target;
/// the error lists the levels, or lists all targets and, if the name is known or similar to one of
/// them, gives advice.
Result<const Target*> find(std::string_view name, std::uint32_t opt_level = kMaxOptLevel);

/// Returns whether a triple, or a name given for a target, names a system whose object format is
/// not ELF.
bool names_other_system(std::string_view text);

/// Returns the name for messages and comments: "avx2", or "avx2 at level 2" if the level is not the
/// highest.
std::string described(const Target& target);

/// Returns the architecture of this process.
Architecture host_architecture();

/// Returns whether this process can execute the target's code: the architecture is the same, and
/// cpu_check() succeeds.
bool runs_here(const Target& target);

/// Returns the target for libraries that are distributed: avx2, arm64 or lasx, by this machine's
/// architecture, even if this CPU cannot execute it.
const Target& portable_here();

/// Returns the target with the most features that this process can execute; generic if it can
/// execute none.
const Target& best_here();

}  // namespace llmc::target
