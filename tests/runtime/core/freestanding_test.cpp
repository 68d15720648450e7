#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/support/load.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// Output of a command with fixed text and paths of this build; fails the test when it fails.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command << '\n' << text;
  return text;
}

/// The whole core as one relocatable object, compiled as an emitted bundle compiles it.
fs::path core_object(const std::string& optimization) {
  const fs::path source = LLMC_SOURCE_DIR;
  const fs::path folder =
      fs::temp_directory_path() / ("llmc-core-" + std::to_string(getpid()) + optimization);
  fs::create_directories(folder);
  std::string objects;
  for (const auto& entry : fs::directory_iterator(source / "runtime/core")) {
    if (entry.path().extension() != ".cpp") continue;
    const fs::path object = folder / (entry.path().stem().string() + ".o");
    output_of("clang++-19 -std=c++20 " + optimization +
              " -ffreestanding -nostdlibinc -fno-exceptions -fno-rtti -fno-threadsafe-statics"
              " -ffp-contract=off -fPIC -Wall -Wextra -Werror -I'" +
              (source / "runtime/include").string() + "' -c '" + entry.path().string() + "' -o '" +
              object.string() + "'");
    objects += " '" + object.string() + "'";
  }
  const fs::path whole = folder / "core.o";
  output_of("clang++-19 -r -nostdlib -o '" + whole.string() + "'" + objects);
  return whole;
}

class Freestanding : public testing::TestWithParam<const char*> {};

TEST_P(Freestanding, NeedsFourFunctionsAndKeepsNoState) {
  if (tests::kAddressSanitizer)
    GTEST_SKIP() << "looks at objects that are compiled without sanitizers";
  const fs::path object = core_object(GetParam());
  std::istringstream symbols(output_of("llvm-nm-19 --format=posix '" + object.string() + "'"));
  std::set<std::string> undefined;
  std::vector<std::string> writable;
  std::set<std::string> exported;
  for (std::string line; std::getline(symbols, line);) {
    std::istringstream fields(line);
    std::string name;
    char type = 0;
    fields >> name >> type;
    if (type == 'U') undefined.insert(name);
    if (std::string("bBdDcC").find(type) != std::string::npos && name.rfind(".L", 0) != 0 &&
        name.find("kChain") == std::string::npos) {
      writable.push_back(line);
    }
    const bool ours = name.rfind("_ZN4llmc4core", 0) == 0 || name.rfind("_ZNK4llmc4core", 0) == 0;
    if (type == 'T' && !ours) exported.insert(name);
  }
  for (const std::string& name : undefined) {
    EXPECT_THAT((std::set<std::string>{"memcpy", "memset", "memmove", "memcmp"}),
                testing::Contains(name));
  }
  EXPECT_THAT(writable, testing::IsEmpty());
  for (const std::string& name : exported) EXPECT_EQ(name.rfind("llmc_", 0), 0u) << name;
  EXPECT_EQ(exported.count("llmc_session_init"), 1u);
  fs::remove_all(object.parent_path());
}

INSTANTIATE_TEST_SUITE_P(Levels, Freestanding, testing::Values("-O0", "-O2", "-O3"),
                         [](const auto& info) { return std::string(info.param + 1); });

}  // namespace
}  // namespace llmc
