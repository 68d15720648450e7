#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/conformance/suite.h"

namespace llmc::conformance {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Every node test in scope is right or refused; the table in docs/ says which.
TEST(Conformance, NodeTestsAreRightOrRefused) {
  std::string why;
  const auto data = find_data(why);
  if (!data) GTEST_SKIP() << why;
  auto tests = select_tests(*data);
  ASSERT_FALSE(tests.empty());
  const std::string version = data_version(*data);
  const bool current = version.starts_with("1.20");
  // Older data cut f32 to bf16 where ONNX rounds.
  if (!current)
    std::erase_if(tests, [](const NodeTest& test) {
      return test.name.find("FLOAT_to_BFLOAT16") != std::string::npos;
    });
  std::map<std::string, Outcome> outcomes;
  int passed = 0;
  for (const auto& test : tests) {
    const Outcome outcome = run_in_interpreter(test);
    EXPECT_NE(outcome.verdict, Verdict::kFailed) << test.name << ": " << outcome.why;
    if (std::getenv("LLMC_CONFORMANCE_VERBOSE") && outcome.verdict == Verdict::kRefused)
      std::cout << test.name << ": " << outcome.why << "\n";
    passed += outcome.verdict == Verdict::kPassed;
    outcomes[test.name] = outcome;
  }
  std::cout << passed << " of " << tests.size() << " node tests passed\n";
  if (!current) return;  // the table is of this version
  const std::string path = LLMC_SOURCE_DIR "/docs/conformance.md";
  const std::string text = report(version.substr(0, version.find('-')), tests, outcomes);
  if (std::getenv("LLMC_UPDATE_DOCS")) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(read_file(path), text) << "docs/conformance.md is out of date: run this test with "
                                      "LLMC_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace llmc::conformance
