#include "compiler/target/target.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <ranges>
#include <string>
#include <vector>

#include "compiler/support/lower_case.h"
#include "compiler/support/name_list.h"
#include "compiler/support/nearest.h"
#include "llmc/cpu.h"

namespace llmc::target {
namespace {

using std::string_view;

constexpr string_view kGenericAliases[] = {"portable", "scalar"};
/// Default tokens per chunk of targets with ample memory.
constexpr std::uint32_t kAppChunk = 128;

constexpr string_view kX86Baseline[] = {"-march=x86-64"};
constexpr string_view kAvx2Aliases[] = {"haswell", "broadwell", "skylake",  "znver1",
                                        "znver2",  "znver3",    "x86-64-v3"};
constexpr string_view kAvx2Flags[] = {"-mavx2", "-mfma", "-mf16c"};
constexpr string_view kAvx2Features[] = {"avx2", "fma", "f16c"};

constexpr string_view kAvxVnniAliases[] = {"alderlake", "raptorlake",   "arrowlake",
                                           "lunarlake", "sierraforest", "avx-vnni"};
constexpr string_view kAvxVnniFlags[] = {"-mavx2", "-mfma", "-mf16c", "-mavxvnni"};
constexpr string_view kAvxVnniFeatures[] = {"avx2", "fma", "f16c", "avx_vnni"};
// x86-64-v4 is not an alias, because it does not include the dot products of bytes.
constexpr string_view kAvx512Aliases[] = {"avx512vnni", "avx512-vnni",    "cascadelake",
                                          "icelake",    "icelake-server", "rocketlake",
                                          "tigerlake",  "znver4",         "znver5"};
constexpr string_view kAvx512Flags[] = {"-mavx2",     "-mfma",      "-mf16c",     "-mavx512f",
                                        "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"};
constexpr string_view kAvx512Features[] = {"avx2",     "fma",      "f16c",     "avx512f",
                                           "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"};

constexpr string_view kAmxAliases[] = {"sapphirerapids", "emeraldrapids", "graniterapids",
                                       "amx-int8"};
constexpr string_view kAmxFlags[] = {"-mavx2",     "-mfma",      "-mf16c",     "-mavx512f",
                                     "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni",
                                     "-mamx-tile", "-mamx-int8"};
constexpr string_view kAmxFeatures[] = {"avx2",     "fma",      "f16c",     "avx512f",
                                        "avx512bw", "avx512vl", "avx512dq", "avx512_vnni",
                                        "amx_tile", "amx_int8"};

// Outlined atomics are functions of libgcc, which a bundle does not link.
constexpr string_view kArm64Baseline[] = {"-march=armv8-a", "-mno-outline-atomics"};
constexpr string_view kArm64Aliases[] = {"aarch64",    "armv8.2-a",  "neon",      "neoverse-n1",
                                         "cortex-a55", "cortex-a76", "cortex-x1", "apple-m1"};
constexpr string_view kArm64Flags[] = {"-march=armv8.2-a+dotprod"};
constexpr string_view kArm64Features[] = {"asimddp"};
constexpr string_view kArm64I8mmAliases[] = {"aarch64-i8mm", "armv8.6-a", "neoverse-v1",
                                             "neoverse-n2",  "cortex-x2", "apple-m2"};
constexpr string_view kArm64I8mmFlags[] = {"-march=armv8.2-a+dotprod+i8mm"};
constexpr string_view kArm64I8mmFeatures[] = {"asimddp", "i8mm"};

constexpr string_view kLoongArchBaseline[] = {"-march=loongarch64"};
constexpr string_view kLasxAliases[] = {"loongarch64", "loong64", "la464", "3a5000", "3a6000"};
constexpr string_view kLasxFlags[] = {"-march=la464"};
constexpr string_view kLasxFeatures[] = {"lasx"};

// The checks that emitted libraries contain; each can be called only on its own architecture.
constexpr Target::Check kBaselineCheck = cpu_has_baseline;
#if defined(__x86_64__)
constexpr Target::Check kAvx2Check = cpu_has_avx2, kAvxVnniCheck = cpu_has_avxvnni;
constexpr Target::Check kAvx512Check = cpu_has_avx512, kAmxCheck = cpu_has_amx;
#else
constexpr Target::Check kAvx2Check = nullptr, kAvxVnniCheck = nullptr, kAvx512Check = nullptr;
constexpr Target::Check kAmxCheck = nullptr;
#endif
#if defined(__aarch64__)
constexpr Target::Check kArm64Check = cpu_has_arm64_dotprod, kI8mmCheck = cpu_has_arm64_i8mm;
#else
constexpr Target::Check kArm64Check = nullptr, kI8mmCheck = nullptr;
#endif
#if defined(__loongarch64)
constexpr Target::Check kLasxCheck = cpu_has_lasx;
#else
constexpr Target::Check kLasxCheck = nullptr;
#endif

/// Advice for names that other tools use for a target, but that match no target exactly.
struct Suggestion {
  string_view text;
  std::initializer_list<string_view> names;
};
constexpr Suggestion kSuggestions[] = {
    {"generic runs on every x86-64 but is slow; avx2 needs Haswell, Zen or later",
     {"x86-64", "x86_64", "amd64", "x64", "x86", "x86-64-v2", "nehalem", "sandybridge", "sse",
      "avx"}},
    {"avx512 also needs the dot products of bytes (Cascade Lake, Zen 4); avx2 does not",
     {"x86-64-v4", "skylake-avx512", "avx512f"}},
    {"arm64 needs the dot products of Armv8.2 (Cortex-A55, A76 or later)",
     {"arm", "armv8-a", "armv7", "cortex-a53", "cortex-a57", "cortex-a72", "cortex-a73",
      "raspberrypi3", "raspberrypi4", "graviton"}},
    {"lasx is the only target for LoongArch", {"lsx"}},
    {"use avx2 for it", {"zen", "zen2", "zen3"}},
    {"use avx512 for it", {"zen4", "zen5"}},
    {"use arm64 for it", {"graviton2", "raspberrypi5", "cortex-a75", "cortex-a77", "cortex-a78"}},
    {"use arm64-i8mm for it",
     {"graviton3", "graviton4", "neoverse-v2", "apple-m3", "apple-m4", "cortex-a510", "cortex-a710",
      "cortex-x3"}},
};
/// Suggestions for all names with a prefix.
constexpr Suggestion kFamilies[] = {
    {"32-bit processors and microcontrollers are not supported",
     {"cortex-m", "cortex-r", "armv6", "stm32", "esp32"}},
    {"targets are processors; --accelerate chooses an accelerator",
     {"cuda", "gpu", "metal", "npu", "nvidia", "opencl", "rocm", "vulkan"}},
};

constexpr Target kTargets[] = {
    {.name = "generic",
     .aliases = kGenericAliases,
     .description = "C++ without intrinsics, baseline x86-64; the reference for all targets",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .core_flags = kX86Baseline,
     .cpu_check = "cpu_has_baseline",
     .check_here = kBaselineCheck,
     .emulator = "qemu-x86_64",
     .emulated_cpu = "Nehalem",
     .tiles = "llmc/tiles/generic.h",
     .lanes = 1},
    {.name = "avx2",
     .aliases = kAvx2Aliases,
     .description = "x86-64 with AVX2, FMA and F16C (Intel since Haswell, AMD since Zen)",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .model_flags = kAvx2Flags,
     .core_flags = kX86Baseline,
     .features = kAvx2Features,
     .cpu_check = "cpu_has_avx2",
     .check_here = kAvx2Check,
     .emulator = "qemu-x86_64",
     .emulated_cpu = "Haswell",
     .tiles = "llmc/tiles/avx2.h",
     .lanes = 8,
     .chunk = kAppChunk},
    {.name = "avxvnni",
     .aliases = kAvxVnniAliases,
     .description = "x86-64 with AVX2 and AVX-VNNI, without AVX-512 (Intel since Alder Lake)",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .model_flags = kAvxVnniFlags,
     .core_flags = kX86Baseline,
     .features = kAvxVnniFeatures,
     .cpu_check = "cpu_has_avxvnni",
     .check_here = kAvxVnniCheck,
     .tiles = "llmc/tiles/avxvnni.h",
     .lanes = 8,
     .chunk = kAppChunk},
    {.name = "avx512",
     .aliases = kAvx512Aliases,
     .description =
         "x86-64 with AVX-512 (F, BW, VL, DQ) and VNNI (Intel since Cascade Lake, AMD since Zen 4)",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .model_flags = kAvx512Flags,
     .core_flags = kX86Baseline,
     .features = kAvx512Features,
     .cpu_check = "cpu_has_avx512",
     .check_here = kAvx512Check,
     .tiles = "llmc/tiles/avx512.h",
     .lanes = 16,
     .chunk = kAppChunk},
    {.name = "amx",
     .aliases = kAmxAliases,
     .description = "x86-64 with AVX-512 as above and AMX-INT8 (Intel Xeon since Sapphire Rapids)",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .model_flags = kAmxFlags,
     .core_flags = kX86Baseline,
     .features = kAmxFeatures,
     .cpu_check = "cpu_has_amx",
     .check_here = kAmxCheck,
     .tiles = "llmc/tiles/amx.h",
     .lanes = 16,
     .chunk = kAppChunk},
    {.name = "arm64",
     .aliases = kArm64Aliases,
     .description = "AArch64 with dot products (Armv8.2: Cortex-A55, A76, X1, Apple M1, Graviton2)",
     .architecture = Architecture::kAarch64,
     .triple = "aarch64-linux-gnu",
     .model_flags = kArm64Flags,
     .core_flags = kArm64Baseline,
     .features = kArm64Features,
     .cpu_check = "cpu_has_arm64_dotprod",
     .check_here = kArm64Check,
     .emulator = "qemu-aarch64",
     .emulated_cpu = "cortex-a76",
     .tiles = "llmc/tiles/neon.h",
     .lanes = 4,
     .uneven_cores = true},
    {.name = "arm64-i8mm",
     .aliases = kArm64I8mmAliases,
     .description =
         "AArch64 with int8 matrix products (Armv8.6: Cortex-A510, X2, Apple M2, Graviton3)",
     .architecture = Architecture::kAarch64,
     .triple = "aarch64-linux-gnu",
     .model_flags = kArm64I8mmFlags,
     .core_flags = kArm64Baseline,
     .features = kArm64I8mmFeatures,
     .cpu_check = "cpu_has_arm64_i8mm",
     .check_here = kI8mmCheck,
     .emulator = "qemu-aarch64",
     .emulated_cpu = "neoverse-v1,sve=off",
     .tiles = "llmc/tiles/neon.h",
     .lanes = 4,
     .uneven_cores = true},
    {.name = "lasx",
     .aliases = kLasxAliases,
     .description = "LoongArch with LASX (Loongson 3A5000, 3A6000)",
     .architecture = Architecture::kLoongArch64,
     .triple = "loongarch64-linux-gnu",
     .model_flags = kLasxFlags,
     .core_flags = kLoongArchBaseline,
     .features = kLasxFeatures,
     .cpu_check = "cpu_has_lasx",
     .check_here = kLasxCheck,
     .emulator = "qemu-loongarch64",
     .emulated_cpu = "la464",
     .tiles = "llmc/tiles/lasx.h",
     .lanes = 8},
};

/// Returns what to use in place of an unknown target: "use avx2 for it; ", "did you mean avx2? ",
/// or nothing. `names`: the known names and aliases.
std::string advice_for(string_view name, std::span<const string_view> names) {
  for (const Suggestion& known : kSuggestions)
    if (std::ranges::count(known.names, name) != 0) return std::string(known.text) + "; ";
  for (const Suggestion& family : kFamilies) {
    for (const string_view prefix : family.names)
      if (name.starts_with(prefix)) return std::string(family.text) + "; ";
  }
  if (const string_view meant = nearest(name, names); !meant.empty())
    return "did you mean " + std::string(meant) + "? ";
  return names_other_system(name) ? "libraries are ELF files for Linux and bare metal only; " : "";
}

/// Returns `target` at optimization level `level`.
constexpr Target at_level(Target target, std::uint32_t level) {
  target.opt_level = level;
  if (level == 1) {
    target.model_flags = {};
    target.features = {};
    target.cpu_check = "cpu_has_baseline";
    target.check_here = kBaselineCheck;
    target.lanes = 1;
  }
  return target;
}

using Levels = std::array<Target, kMaxOptLevel - 1>;
constexpr auto kLowerLevels = [] {
  std::array<Levels, std::size(kTargets)> table{};
  for (std::size_t i = 0; i < std::size(kTargets); ++i) {
    for (std::uint32_t level = 1; level < kMaxOptLevel; ++level)
      table[i][level - 1] = at_level(kTargets[i], level);
  }
  return table;
}();

}  // namespace

Architecture host_architecture() {
#if defined(__aarch64__)
  return Architecture::kAarch64;
#elif defined(__loongarch64)
  return Architecture::kLoongArch64;
#else
  return Architecture::kX86_64;
#endif
}

std::span<const Target> all() {
  return kTargets;
}

Result<const Target*> find(std::string_view name, std::uint32_t opt_level) {
  if (opt_level < 1 || opt_level > kMaxOptLevel) {
    return usage_error("unknown optimization level " + std::to_string(opt_level),
                       "levels are 1 (reference), 2 (SIMD) and 3 (SIMD with tiles)");
  }
  if (name == "native") return find(best_here().name, opt_level);
  for (std::size_t i = 0; i < std::size(kTargets); ++i) {
    const Target& target = kTargets[i];
    if (target.name != name && std::ranges::count(target.aliases, name) == 0) continue;
    return opt_level == kMaxOptLevel ? &target : &kLowerLevels[i][opt_level - 1];
  }
  std::vector<std::string_view> names;
  for (const Target& target : kTargets) {
    names.push_back(target.name);
    names.insert(names.end(), target.aliases.begin(), target.aliases.end());
  }
  const std::string known = name_list(std::views::transform(kTargets, &Target::name), ", ");
  const std::string advice = advice_for(lower_case(name), names);
  return usage_error(
      "unknown target '" + printable(name, 40) + "'",
      advice + "known targets: " + known + "; native selects the best for this machine");
}

bool names_other_system(std::string_view text) {
  constexpr string_view kSystems[] = {
      "apple",    "darwin",    "macos",   "ios",   "tvos",  "watchos", "xros",
      "visionos", "driverkit", "windows", "win32", "win64", "cygwin",  "mingw",
      "wasm",     "uefi",      "aix",     "zos",   "macho", "coff",    "xcoff"};
  return std::ranges::any_of(kSystems,
                             [&](string_view system) { return text.find(system) != text.npos; });
}

std::string described(const Target& target) {
  std::string text(target.name);
  if (target.opt_level < kMaxOptLevel) text += " at level " + std::to_string(target.opt_level);
  return text;
}

bool runs_here(const Target& target) {
  return target.architecture == host_architecture() && target.check_here != nullptr &&
         target.check_here() != 0;
}

const Target& portable_here() {
  return *std::ranges::find_if(kTargets, [](const Target& target) {
    return target.architecture == host_architecture() && !target.features.empty();
  });
}

const Target& best_here() {
  const Target* best = &kTargets[0];  // generic, unless another target runs here
  std::size_t features = 0;
  for (const Target& target : kTargets) {
    if (runs_here(target) && target.features.size() >= features) {
      best = &target;
      features = target.features.size();
    }
  }
  return *best;
}

}  // namespace llmc::target
