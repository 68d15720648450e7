// Random graphs: the interpreter on the imported graph, after each pass alone, and after all of
// them says the same. LLMC_RANDOM_GRAPHS sets how many (300), LLMC_RANDOM_SEED where to begin (1).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "passes/pipeline.h"
#include "tests/random/compare.h"
#include "tests/random/reduce.h"

namespace llmc {
namespace {

using testing::RandomModel;

std::uint64_t number_from(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

/// What is wrong with the model's compilation, with the name of the step before it; empty when all
/// agree. The text up to the first newline says what kind of failure it is.
std::string problem(const RandomModel& model) {
  const testing::TemporaryFolder folder;
  model.builder.save(folder.path() / "m.onnx");
  const auto imported = importer::import_model(folder.path() / "m.onnx");
  if (!imported.ok()) return "import\n" + format(imported.error().first());
  if (const auto status = ir::verify(imported->graph); !status.ok())
    return "verify\n" + format(status.error().first());
  const auto expected = reference::evaluate(imported->graph, model.inputs);
  if (!expected.ok()) return "interpreter\n" + format(expected.error().first());
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const auto& output = model.builder.model.graph().output(static_cast<int>(i));
    testing::Dims dims;
    for (const auto& d : output.type().tensor_type().shape().dim()) dims.push_back(d.dim_value());
    if (dims != expected->at(i).dims) return "shape of " + output.name() + "\n";
  }
  const auto compare = [&](const std::string& step, const Result<passes::PipelineResult>& result) {
    if (!result.ok()) return step + "\n" + format(result.error().first());
    const auto computed = reference::evaluate(result->graph, model.inputs);
    if (!computed.ok()) return step + " then interpreter\n" + format(computed.error().first());
    const std::string difference = testing::difference(*expected, *computed);
    return difference.empty() ? difference : step + "\n" + difference;
  };
  for (const passes::PassEntry& pass : passes::registry()) {
    const std::string found = compare("pass " + std::string(pass.name),
                                      passes::run_passes(imported->graph, {&pass, 1}, {}));
    if (!found.empty()) return found;
  }
  return compare("all passes", passes::run_pipeline(imported->graph, {}));
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The model made small, in the IR's text form, and where its file lies.
std::string report(const RandomModel& model, std::uint64_t seed, const std::string& found) {
  const RandomModel small = testing::reduce(
      model, [&](const RandomModel& m) { return first_line(problem(m)) == first_line(found); });
  const auto path =
      std::filesystem::temp_directory_path() / ("llmc-random-" + std::to_string(seed) + ".onnx");
  small.builder.save(path);
  std::string text = "seed " + std::to_string(seed) + ": " + problem(small) + "\n" + path.string();
  if (const auto imported = importer::import_model(path); imported.ok())
    text += "\n" + ir::print(imported->graph);
  return text;
}

TEST(Random, GraphsMeanTheSameAfterEveryPass) {
  const std::uint64_t count = number_from("LLMC_RANDOM_GRAPHS", 300);
  const std::uint64_t first = number_from("LLMC_RANDOM_SEED", 1);
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const RandomModel model = testing::random_model(seed, 12);
    const std::string found = problem(model);
    if (found.empty()) continue;
    ++failures;
    ADD_FAILURE() << report(model, seed, found);
  }
}

}  // namespace
}  // namespace llmc
