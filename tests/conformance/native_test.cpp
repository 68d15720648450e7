#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "compiler/driver/source.h"
#include "compiler/exec/function_library.h"
#include "compiler/reference/tensor.h"
#include "tests/conformance/suite.h"

namespace llmc::conformance {
namespace {

/// One data set of one test, on its way through the compiler.
struct Item {
  const NodeTest* test = nullptr;
  importer::BoundModel bound;
  Outcome outcome;
  bool ready = false;
};

/// Functions that one run of clang compiles: few runs, and not too much memory in one.
constexpr std::size_t kBatch = 40;

void run_batch(std::span<Item> items, const std::string& target) {
  std::vector<exec::FunctionLibrary::Job> jobs;
  std::vector<Item*> compiled;
  for (Item& item : items) {
    if (!item.ready) continue;
    jobs.push_back({&item.bound.model.graph(), "t" + std::to_string(jobs.size())});
    compiled.push_back(&item);
  }
  exec::FunctionLibrary::Outcome outcome;
  const auto library = exec::FunctionLibrary::compile(jobs, target, "-O0", outcome);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Item& item = *compiled[i];
    if (!library.ok()) {
      item.outcome = {Verdict::kFailed, format_all(library.error())};
      continue;
    }
    if (outcome[i]) {
      // What the importer takes, native code has to do: refusing here would hide a gap.
      item.outcome = {Verdict::kFailed, "taken, but not compiled: " + format_all(*outcome[i])};
      continue;
    }
    const auto outputs = (*library)->run(i, item.bound.inputs);
    if (!outputs.ok()) {
      item.outcome = {Verdict::kFailed, format_all(outputs.error())};
      continue;
    }
    for (std::size_t o = 0; o < outputs->size() && item.outcome.why.empty(); ++o) {
      const std::string why =
          difference(reference::to_tensor(*(*outputs)[o]), *item.bound.outputs[o]);
      if (!why.empty())
        item.outcome = {Verdict::kFailed, "output " + std::to_string(o) + ": " + why};
    }
  }
}

/// Every node test in scope gives the right result in native code or is refused.
TEST(Conformance, NativeCodeIsRightOrRefused) {
  std::string why;
  const auto data = find_data(why);
  if (!data) GTEST_SKIP() << why;
  const auto avx2 = target::find("avx2");
  const std::string target = avx2.ok() && target::runs_here(**avx2) ? "avx2" : "generic";
  const std::vector<NodeTest> tests = select_tests(*data);
  std::vector<Item> items;
  for (const NodeTest& test : tests) {
    for (const auto& folder : importer::data_set_folders(test.folder)) {
      Item item;
      item.test = &test;
      auto bound = importer::import_with_data(test.folder / "model.onnx", folder);
      if (bound.ok()) {
        item.bound = *std::move(bound);
        item.ready = true;
      } else {
        item.outcome = stopped(bound.error());
      }
      items.push_back(std::move(item));
    }
  }
  for (std::size_t at = 0; at < items.size(); at += kBatch)
    run_batch(std::span(items).subspan(at, std::min(kBatch, items.size() - at)), target);
  std::map<Verdict, int> counts;
  for (const Item& item : items) {
    ++counts[item.outcome.verdict];
    EXPECT_NE(item.outcome.verdict, Verdict::kFailed)
        << item.test->name << ": " << item.outcome.why;
    if (std::getenv("LLMC_CONFORMANCE_VERBOSE") && item.outcome.verdict == Verdict::kRefused)
      std::cout << item.test->name << ": " << item.outcome.why << "\n";
  }
  std::cout << counts[Verdict::kPassed] << " of " << items.size() << " data sets right in native "
            << target << " code, " << counts[Verdict::kRefused] << " refused\n";
}

}  // namespace
}  // namespace llmc::conformance
