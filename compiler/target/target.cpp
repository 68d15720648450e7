#include "compiler/target/target.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace llmc::target {
namespace {

using std::string_view;

constexpr string_view kGenericAliases[] = {"portable", "scalar"};
constexpr string_view kX86Baseline[] = {"-march=x86-64"};
constexpr string_view kAvx2Aliases[] = {"haswell", "x86-64-v3"};
constexpr string_view kAvx2Flags[] = {"-mavx2", "-mfma", "-mf16c"};
constexpr Feature kAvx2Features[] = {Feature::kAvx2, Feature::kFma, Feature::kF16c};

constexpr Target kTargets[] = {
    {.name = "generic",
     .aliases = kGenericAliases,
     .description =
         "C++ without intrinsics, baseline x86-64: the reference every target must equal",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .model_flags = {},
     .core_flags = kX86Baseline,
     .features = {},
     .cpu_check = "cpu_has_baseline",
     .simd_define = "",
     .lanes = 1,
     .token_group = 8,
     .quantized_kernel_bytes = 60 << 10,
     .float_kernel_bytes = 34 << 10},
    {.name = "avx2",
     .aliases = kAvx2Aliases,
     .description = "x86-64 with AVX2, FMA and F16C (Intel since Haswell, AMD since Zen)",
     .architecture = Architecture::kX86_64,
     .triple = "x86_64-linux-gnu",
     .model_flags = kAvx2Flags,
     .core_flags = kX86Baseline,
     .features = kAvx2Features,
     .cpu_check = "cpu_has_avx2",
     .simd_define = "LLMC_TARGET_AVX2",
     .lanes = 8,
     .token_group = 8,
     .quantized_kernel_bytes = 13 << 10,
     .float_kernel_bytes = 8 << 10},
};

constexpr Architecture host_architecture() {
#if defined(__aarch64__)
  return Architecture::kAarch64;
#elif defined(__loongarch64)
  return Architecture::kLoongArch64;
#else
  return Architecture::kX86_64;
#endif
}

bool host_has(Feature feature) {
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks whether the OS saves the wide registers.
  switch (feature) {
    case Feature::kAvx2:
      return __builtin_cpu_supports("avx2");
    case Feature::kFma:
      return __builtin_cpu_supports("fma");
    case Feature::kF16c: {
      unsigned a = 0, b = 0, c = 0, d = 0;
      return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
    }
  }
#endif
  (void)feature;
  return false;
}

}  // namespace

std::string_view to_string(Feature feature) {
  switch (feature) {
    case Feature::kAvx2:
      return "avx2";
    case Feature::kFma:
      return "fma";
    case Feature::kF16c:
      return "f16c";
  }
  return "?";
}

std::span<const Target> all() {
  return kTargets;
}

Result<const Target*> find(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name || std::ranges::count(target.aliases, name) != 0) return &target;
  }
  std::string known;
  for (const Target& target : kTargets) {
    known += known.empty() ? "" : ", ";
    known += target.name;
  }
  return Diagnostic{.kind = ErrorKind::kUsage,
                    .file = {},
                    .node = {},
                    .op = {},
                    .message = "unknown target '" + printable(name, 40) + "'",
                    .hint = "known targets: " + known};
}

std::vector<Feature> missing_here(const Target& target) {
  std::vector<Feature> missing;
  for (const Feature feature : target.features) {
    if (target.architecture != host_architecture() || !host_has(feature))
      missing.push_back(feature);
  }
  return missing;
}

bool runs_here(const Target& target) {
  return target.architecture == host_architecture() && missing_here(target).empty();
}

}  // namespace llmc::target
