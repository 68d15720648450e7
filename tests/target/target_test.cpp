#include "compiler/target/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace llmc::target {
namespace {

using ::testing::HasSubstr;

/// Returns the target's name as LLMC_TARGET and in the name of its SIMD header.
std::string identifier(const Target& target) {
  std::string name(target.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

TEST(Targets, NamesAndAliasesLeadToOneRow) {
  std::set<std::string_view> names;
  for (const Target& target : all()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    EXPECT_EQ(*find(target.name), &target);
    for (const std::string_view alias : target.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(*find(alias), &target);
    }
  }
  EXPECT_EQ(all().front().name, "generic");
}

TEST(Targets, ThePortableOneIsOfThisArchitecture) {
  EXPECT_EQ(portable_here().architecture, host_architecture());
#if defined(__x86_64__)
  EXPECT_EQ(portable_here().name, "avx2");
#endif
}

TEST(Targets, OtherToolsNamesAreUnderstood) {
  const std::pair<const char*, const char*> kNames[] = {
      {"x86-64-v3", "avx2"},       {"haswell", "avx2"},
      {"aarch64", "arm64"},        {"armv8.2-a", "arm64"},
      {"neon", "arm64"},           {"aarch64-i8mm", "arm64-i8mm"},
      {"armv8.6-a", "arm64-i8mm"}, {"loongarch64", "lasx"},
      {"loong64", "lasx"},         {"la464", "lasx"},
      {"scalar", "generic"},       {"icelake", "avx512"},
      {"sapphirerapids", "amx"},   {"alderlake", "avxvnni"},
      {"znver4", "avx512"},        {"skylake", "avx2"},
      {"znver3", "avx2"},          {"neoverse-n1", "arm64"},
      {"apple-m1", "arm64"},       {"neoverse-v1", "arm64-i8mm"},
      {"3a6000", "lasx"}};
  for (const auto& [alias, name] : kNames) {
    const auto found = find(alias);
    ASSERT_TRUE(found.ok()) << alias;
    EXPECT_EQ((*found)->name, name) << alias;
  }
}

TEST(Targets, AnUnknownNameListsWhatThereIs) {
  std::string names;
  for (const Target& target : all())
    names += (names.empty() ? "" : ", ") + std::string(target.name);
  for (const char* name : {"", "z80", "avx2 ", "\x1b[2J"}) {
    const auto found = find(name);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().first().kind, ErrorKind::kUsage);
    EXPECT_THAT(found.error().first().hint, HasSubstr(names));
  }
}

TEST(Targets, NativeIsTheBestOfThisMachine) {
  EXPECT_EQ((*find("native"))->name, best_here().name);
  EXPECT_EQ((*find("native", 2))->opt_level, 2u);
}

TEST(Targets, NamesWithoutAnExactTargetGetASuggestion) {
  const std::pair<const char*, const char*> kHints[] = {
      {"x86-64", "generic runs on every x86-64"},
      {"x86-64-v4", "avx2 does not"},
      {"cortex-a53", "arm64 needs the dot products"},
      {"amr64", "did you mean arm64?"},
      {"AVX2", "did you mean avx2?"},
      {"zen4", "use avx512 for it"},
      {"Graviton2", "use arm64 for it"},
      {"raspberrypi4", "arm64 needs the dot products"},
      {"apple-m4", "use arm64-i8mm for it"},
      {"neoverse-v2", "use arm64-i8mm for it"},
      {"cortex-m7", "microcontrollers are not supported"},
      {"windows-x64", "libraries are ELF files"},
      {"x86_64-apple-darwin", "libraries are ELF files"},
      {"cuda", "--accelerate chooses an accelerator"},
      {"cortex-a57", "arm64 needs the dot products"},
      {"z80", "native selects the best for this machine"}};
  for (const auto& [name, words] : kHints) {
    const auto found = find(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_THAT(found.error().first().hint, HasSubstr(words)) << name;
    if (std::string_view(words).find("did you mean") == std::string_view::npos)
      EXPECT_THAT(found.error().first().hint, ::testing::Not(HasSubstr("did you mean"))) << name;
  }
}

TEST(Targets, LayoutsFitTheKernels) {
  for (const Target& target : all()) {
    EXPECT_EQ(target.token_group, 8u) << "the packed layouts of templates/llmc/quant";
    EXPECT_FALSE(target.cpu_check.empty());
    // The emitted source calls it, so the header must have it.
    std::ifstream header(std::string(LLMC_SOURCE_DIR) + "/templates/llmc/cpu.h");
    std::stringstream text;
    text << header.rdbuf();
    EXPECT_THAT(text.str(), HasSubstr(std::string(target.cpu_check) + "()"));
  }
}

TEST(Targets, TheReferenceLevelNeedsNothingOfTheProcessor) {
  for (const Target& target : all()) {
    EXPECT_EQ(target.opt_level, kMaxOptLevel);
    EXPECT_EQ(described(target), target.name);
    for (std::uint32_t level = 1; level < kMaxOptLevel; ++level) {
      const Target& lower = **find(target.name, level);
      EXPECT_EQ(lower.opt_level, level);
      EXPECT_EQ(lower.name, target.name);
      EXPECT_EQ(lower.triple, target.triple);
      EXPECT_EQ(described(lower), std::string(target.name) + " at level " + std::to_string(level));
    }
    const Target& reference = **find(target.name, 1);
    EXPECT_TRUE(reference.features.empty());
    EXPECT_TRUE(reference.model_flags.empty());
    EXPECT_EQ(reference.cpu_check, "cpu_has_baseline");
    EXPECT_EQ((*find(target.name, 2))->features.size(), target.features.size());
  }
  EXPECT_TRUE(runs_here(**find("avx2", 1)) == runs_here(**find("generic")));
}

TEST(Targets, TestsForOtherArchitecturesAreCompiledWithTheSameFlags) {
  std::ifstream file(std::string(LLMC_SOURCE_DIR) + "/tests/cross/CMakeLists.txt");
  std::stringstream text;
  text << file.rdbuf();
  for (const Target& target : all()) {
    if (target.architecture == Architecture::kX86_64) continue;
    const auto expect = [&](std::string line, std::span<const std::string_view> flags) {
      for (const std::string_view flag : flags) line += " " + std::string(flag);
      EXPECT_THAT(text.str(), HasSubstr("\nset(" + line + ")\n"));
    };
    expect("flags_" + std::string(target.name) + " -DLLMC_TARGET=" + identifier(target),
           target.model_flags);
    // Level 1, of one target for each architecture.
    if (target.name != "arm64-i8mm")
      expect("flags_" + std::string(target.name) + "_1", target.core_flags);
  }
}

TEST(Targets, AnUnknownLevelIsAMistakeOfTheCommandLine) {
  for (const std::uint32_t level : {0u, 4u, 4000000000u}) {
    const auto found = find("avx2", level);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().first().kind, ErrorKind::kUsage);
  }
}

TEST(Targets, AMachineRunsWhatItHasTheFeaturesFor) {
  for (const Target& target : all()) {
    EXPECT_EQ(target.check_here != nullptr,
              target.architecture == host_architecture() || target.features.empty())
        << target.name;
  }
#if defined(__x86_64__)
  EXPECT_TRUE(runs_here(**find("generic")));
  std::ifstream info("/proc/cpuinfo");
  std::stringstream text;
  text << info.rdbuf();
  for (const Target& target : all()) {
    if (target.architecture != Architecture::kX86_64) continue;
    bool has_all = true;
    for (const std::string_view feature : target.features)
      has_all = has_all && text.str().find(" " + std::string(feature)) != std::string::npos;
    EXPECT_EQ(runs_here(target), has_all) << target.name;
  }
#endif
}

TEST(Targets, HaveTheHeadersThatTheirSourcesInclude) {
  const std::filesystem::path templates = LLMC_SOURCE_DIR "/templates";
  for (const Target& target : all()) {
    EXPECT_TRUE(exists(templates / "llmc/simd" / (identifier(target) + ".h"))) << target.name;
    EXPECT_TRUE(exists(templates / target.tiles)) << target.name;
  }
}

}  // namespace
}  // namespace llmc::target
