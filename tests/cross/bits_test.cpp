#include "tests/kernels/bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/support/subprocess.h"

namespace llmc::test {
namespace {

using Lines = std::vector<std::string>;

/// What print_bits prints, of the portable kernels in this process.
Lines bits_of_generic() {
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  const std::unique_ptr<unsigned char, Free> memory(
      static_cast<unsigned char*>(std::aligned_alloc(64, kLlmcBitsMemory)));
  std::memset(memory.get(), 0xff, kLlmcBitsMemory);
  Lines lines;
  llmc_kernel_bits_generic(
      memory.get(),
      [](void* user, const LlmcKernelBits* result) {
        char text[160];
        std::snprintf(text, sizeof text, "%016" PRIx64 " %zu %zu %s", result->hash, result->tokens,
                      result->threads, result->name);
        static_cast<Lines*>(user)->push_back(text);
      },
      &lines);
  return lines;
}

TEST(CrossBits, AnotherArchitectureComputesTheBitsOfGeneric) {
  const char* const given = std::getenv("LLMC_PRINT_BITS");
  if (given == nullptr) GTEST_SKIP() << "LLMC_PRINT_BITS names no command; ctest sets it";
  std::istringstream words(given);
  Lines command;
  for (std::string word; words >> word;) command.push_back(word);
  const auto printed = run_command(command);
  ASSERT_TRUE(printed.ok());
  ASSERT_TRUE(printed->ok()) << given << "\n" << printed->standard_error;
  const Lines generic = bits_of_generic();
  ASSERT_GT(generic.size(), 500u);
  std::istringstream out(printed->standard_output);
  Lines found;
  for (std::string line; std::getline(out, line);) found.push_back(line);
  // Of level 3 all that generic has, of the lower ones those for their tokens and threads, of
  // arm64-i8mm the products.
  if (std::getenv("LLMC_PRINT_BITS_OF_LEVEL_3") != nullptr) ASSERT_EQ(found.size(), generic.size());
  ASSERT_GT(found.size(), std::getenv("LLMC_PRINT_BITS_OF_PRODUCTS") != nullptr ? 120u : 150u);
  auto at = generic.begin();
  for (const std::string& line : found) {
    at = std::find(at, generic.end(), line);
    ASSERT_NE(at, generic.end()) << line << "\nis not what generic computes";
    ++at;
  }
}

}  // namespace
}  // namespace llmc::test
