// Random graphs: the interpreter on the imported graph, after each pass alone, and after all of
// them says the same. LLMC_RANDOM_GRAPHS sets how many (300), LLMC_RANDOM_SEED where to begin (1).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "compiler/driver/source.h"
#include "compiler/exec/function_library.h"
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
  if (const auto status = ir::verify(imported->graph()); !status.ok())
    return "verify\n" + format(status.error().first());
  const auto expected = reference::evaluate(imported->graph(), model.inputs);
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
                                      passes::run_passes(imported->graph(), {&pass, 1}, {}));
    if (!found.empty()) return found;
  }
  return compare("all passes", passes::run_pipeline(imported->graph(), {}));
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The model made small while `find` sees the same kind of problem, in the IR's text form, and
/// where its file lies.
std::string report(const RandomModel& model, std::uint64_t seed, const std::string& found,
                   const std::function<std::string(const RandomModel&)>& find) {
  const RandomModel small = testing::reduce(
      model, [&](const RandomModel& m) { return first_line(find(m)) == first_line(found); });
  const auto path =
      std::filesystem::temp_directory_path() / ("llmc-random-" + std::to_string(seed) + ".onnx");
  small.builder.save(path);
  std::string text = "seed " + std::to_string(seed) + ": " + find(small) + "\n" + path.string();
  if (const auto imported = importer::import_model(path); imported.ok())
    text += "\n" + ir::print(imported->graph());
  return text;
}

/// Where native code of the models differs from the interpreter; empty texts where it does not.
/// Compiles them all at once. Unsupported is a problem too: these are operators llmc says it takes.
std::vector<std::string> native_problems(std::span<const RandomModel* const> models) {
  std::vector<std::string> problems(models.size());
  std::vector<std::optional<importer::ImportedModel>> imported(models.size());
  std::vector<exec::FunctionLibrary::Job> jobs;
  std::vector<std::size_t> model_of_job;
  const testing::TemporaryFolder folder;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto path = folder.path() / ("m" + std::to_string(i) + ".onnx");
    models[i]->builder.save(path);
    auto result = importer::import_model(path);
    if (!result.ok()) {
      problems[i] = "import\n" + format(result.error().first());
      continue;
    }
    imported[i] = std::move(result).value();
    jobs.push_back({&imported[i]->graph(), "g" + std::to_string(i)});
    model_of_job.push_back(i);
  }
  exec::FunctionLibrary::Outcome outcome;
  const auto library = exec::FunctionLibrary::compile(jobs, "avx2", "-O0", outcome);
  if (!library.ok()) {
    for (auto& p : problems) p = "toolchain\n" + format(library.error().first());
    return problems;
  }
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const RandomModel& model = *models[model_of_job[j]];
    std::string& found = problems[model_of_job[j]];
    if (outcome[j]) {
      found = "native compilation\n" + format(outcome[j]->first());
      continue;
    }
    const auto expected = reference::evaluate(*jobs[j].graph, model.inputs);
    std::vector<ir::ConstantPtr> inputs;
    for (const auto& input : model.inputs) inputs.push_back(reference::to_constant(input));
    const auto computed = (*library)->run(j, inputs);
    if (!expected.ok() || !computed.ok()) {
      found = "run\n" + format((expected.ok() ? computed.error() : expected.error()).first());
      continue;
    }
    std::vector<reference::Tensor> outputs;
    for (const auto& output : *computed) outputs.push_back(reference::to_tensor(*output));
    const std::string difference = testing::difference(*expected, outputs);
    if (!difference.empty()) found = "native code\n" + difference;
  }
  return problems;
}

std::string native_problem(const RandomModel& model) {
  const RandomModel* one = &model;
  return native_problems({&one, 1}).front();
}

constexpr int kNodes = 12;
constexpr int kReported = 5;  // failures after which a run stops

TEST(Random, GraphsMeanTheSameAfterEveryPass) {
  const std::uint64_t count = number_from("LLMC_RANDOM_GRAPHS", 300);
  const std::uint64_t first = number_from("LLMC_RANDOM_SEED", 1);
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < kReported; ++seed) {
    const RandomModel model = testing::random_model(seed, kNodes);
    const std::string found = problem(model);
    if (found.empty()) continue;
    ++failures;
    ADD_FAILURE() << report(model, seed, found, problem);
  }
}

TEST(Random, NativeCodeSaysWhatTheInterpreterSays) {
  const std::uint64_t count = number_from("LLMC_RANDOM_GRAPHS", 300);
  const std::uint64_t first = number_from("LLMC_RANDOM_SEED", 1);
  constexpr std::uint64_t kBatch = 50;
  int failures = 0;
  for (std::uint64_t begin = first; begin < first + count; begin += kBatch) {
    std::vector<RandomModel> models;
    for (std::uint64_t seed = begin; seed < std::min(begin + kBatch, first + count); ++seed)
      models.push_back(testing::random_model(seed, kNodes));
    std::vector<const RandomModel*> batch;
    for (const RandomModel& model : models) batch.push_back(&model);
    const auto problems = native_problems(batch);
    for (std::size_t i = 0; i < models.size() && failures < kReported; ++i) {
      if (problems[i].empty()) continue;
      ++failures;
      ADD_FAILURE() << report(models[i], begin + i, problems[i], native_problem);
    }
    if (failures >= kReported) return;
  }
}

}  // namespace
}  // namespace llmc
