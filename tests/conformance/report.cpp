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
      "ONNX's own node tests, version {}, all of whose operators llmc takes: {} tests, {} passed, "
      "{} refused with a\nreason, {} failed. Each goes through the importer and the reference "
      "interpreter, and is compared with ONNX's\ntolerances (relative 1e-3, absolute 1e-7); native "
      "avx2 code is held to the same by\n`Conformance.NativeCodeIsRightOrRefused`. A test that is "
      "spelled out in other operators (`_expanded`) counts\nfor the operator it spells out.\n\n"
      "| operator | passed | refused | failed | why |\n|---|---|---|---|---|\n",
      version, tests.size(), all.passed, all.refused, all.failed);
  for (const auto& [name, counts] : by_operator)
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, counts.passed, counts.refused,
                        counts.failed, reasons_text(counts));
  return text;
}

}  // namespace llmc::conformance
