#include <fmt/format.h>

#include "tests/conformance/suite.h"

namespace llmc::conformance {
namespace {

struct Counts {
  int passed = 0, refused = 0, failed = 0;
  std::map<std::string, int> reasons;

  void add(const Outcome& outcome) {
    (outcome.verdict == Verdict::kPassed    ? passed
     : outcome.verdict == Verdict::kRefused ? refused
                                            : failed)++;
    if (outcome.verdict != Verdict::kPassed) ++reasons[outcome.why];
  }
};

std::string reasons_text(const Counts& counts) {
  std::string text;
  for (const auto& [why, count] : counts.reasons) {
    if (!text.empty()) text += "; ";
    text += count > 1 ? fmt::format("{} ({})", why, count) : why;
  }
  return text;
}

}  // namespace

std::string report(const std::string& version, const std::vector<NodeTest>& tests,
                   const std::map<std::string, Outcome>& outcomes) {
  std::map<std::string, Counts> by_operator;
  Counts all;
  for (const auto& test : tests) {
    const Outcome& outcome = outcomes.at(test.name);
    by_operator[test.subject].add(outcome);
    all.add(outcome);
  }
  std::string text = fmt::format(
      "# ONNX conformance\n\n"
      "<!-- Written by llmc_tests_conformance; LLMC_UPDATE_DOCS=1 writes it anew. -->\n\n"
      "ONNX's node tests, version {}, restricted to those whose operators llmc supports: {} tests, "
      "{} passed,\n{} refused with a reason, {} failed. Each graph runs through the importer and "
      "the "
      "reference interpreter;\nresults are compared with ONNX's tolerances (relative 1e-3, "
      "absolute "
      "1e-7).\n`Conformance.NativeCodeIsRightOrRefused` compares native avx2 code with the same "
      "tolerances. A test that\nexpands a function operator into other operators (`_expanded`) "
      "counts "
      "for the function operator.\n\n"
      "| operator | passed | refused | failed | why |\n|---|---|---|---|---|\n",
      version, tests.size(), all.passed, all.refused, all.failed);
  for (const auto& [name, counts] : by_operator)
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, counts.passed, counts.refused,
                        counts.failed, reasons_text(counts));
  return text;
}

}  // namespace llmc::conformance
