#include <fmt/format.h>

#include <memory>

#include "compiler/evaluate/test_onnx.h"
#include "compiler/support/parse_number.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"

namespace llmc::cli {
namespace {

struct TestOnnxCommand {
  std::string model, data, target, quant, opt_level = "3", emulator;
  std::uint32_t threads = 1;
  bool has_tolerance = false;  // --rtol or --atol
  std::vector<std::string> dims;
  evaluate::Tolerance tolerance;
};

/// `allowed`: maximum relative error; 0: each element must be within its tolerance.
std::string outcome(const evaluate::VerifiedOutput& verified, double allowed) {
  const evaluate::OutputDifference& output = verified.largest;
  if (!output.problem.empty()) return output.problem;
  std::string text =
      fmt::format("largest difference {:.3g} of {:.3g}", output.difference, output.largest);
  if (allowed > 0)
    text += fmt::format("; relative error {:.2e}, at most {}", verified.relative_error, allowed);
  else if (output.mismatches > 0)
    text += fmt::format("; {} beyond the tolerance, at element {} {} instead of {}",
                        output.mismatches, output.worst, output.actual, output.expected);
  return text;
}

std::string refuse_negative(const std::string& text) {
  if (parse_number<double>(text).value_or(-1) >= 0) return {};
  return "takes a number of at least 0, not '" + printable(text, 40) + "'";
}

Result<int> test_onnx(const TestOnnxCommand& command, const Globals& globals) {
  evaluate::TestOnnxOptions options;
  options.model = command.model;
  options.data = command.data;
  options.tolerance = command.tolerance;
  options.threads = command.threads;
  if (!command.quant.empty()) {
    LLMC_TRY(options.quant, parse_quant(command.quant));
    if (command.has_tolerance && options.quant != ir::WeightFormat::kF32)
      remark(globals,
             fmt::format("--rtol and --atol have no effect with --quant {}", command.quant));
  }
  LLMC_TRY(options.dims, parse_dims(command.dims));
  LLMC_TRY(options.target, checked_target(command.target));
  options.emulator = command.emulator;
  LLMC_TRY(options.opt_level, parse_opt_level(command.opt_level));
  LLMC_RETURN_IF_ERROR(refuse_bundle(command.model));
  note_model_file(globals, command.model);
  Progress line(globals);
  LLMC_TRY(const auto results, evaluate::test_onnx(options, progress_of(line)));
  line.clear();
  std::size_t passed = 0;
  Json sets = Json::array();
  for (const evaluate::DataSetResult& set : results) {
    passed += set.ok() ? 1 : 0;
    Json outputs = Json::array();
    if (!globals.json) print(fmt::format("{}\n", set.folder.filename().string()));
    for (const std::string& name : set.bound)
      note(globals, fmt::format("  input '{}' determines shapes: bound to the constant of the data",
                                printable(name, 80)));
    for (const evaluate::VerifiedOutput& verified : set.outputs) {
      const evaluate::OutputDifference& output = verified.largest;
      const std::string type =
          fmt::format("{}[{}]", ir::to_string(output.element), fmt::join(output.dims, ", "));
      outputs.push_back(Json{{"name", printable(output.name)},
                             {"type", type},
                             {"ok", verified.ok},
                             {"largest_difference", output.difference},
                             {"largest_expected", output.largest},
                             {"mismatches", output.mismatches},
                             {"relative_error", verified.relative_error},
                             {"problem", output.problem}});
      if (!globals.json)
        print(fmt::format("  {}  {} {}: {}\n", verified.ok ? "ok  " : "FAIL",
                          printable(output.name, 60), type,
                          outcome(verified, set.relative_error_allowed)));
    }
    sets.push_back(Json{{"folder", set.folder.string()},
                        {"ok", set.ok()},
                        {"arena_bytes", set.arena_bytes},
                        {"weights_bytes", set.weights_bytes},
                        {"relative_error_allowed", set.relative_error_allowed},
                        {"bound", set.bound.size()},
                        {"outputs", outputs}});
  }
  if (globals.json) {
    print_json(Json{{"passed", passed}, {"of", results.size()}, {"data_sets", sets}});
  } else {
    print(fmt::format("{} of {} data sets agree\n", passed, results.size()));
  }
  return passed == results.size() ? 0 : exit_code(ErrorKind::kMismatch);
}

}  // namespace

Action add_test_onnx(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<TestOnnxCommand>();
  app.add_option("MODEL", command->model, "Folder of a model, or one .onnx file")
      ->required()
      ->check(not_empty);
  app.add_option("DATASET_DIR", command->data,
                 "Folder with input_N.pb and output_N.pb, or with folders test_data_set_N")
      ->required();
  app.add_option("--target", command->target,
                 "Target, listed by llmc targets (default: best for this machine)")
      ->check(refuse_empty);
  app.add_option("--quant", command->quant,
                 "Weight format: " + passes::quant_scheme_list(" or ") +
                     "; one that rounds is judged by the relative error of each output (default: "
                     "the model's own formats)")
      ->check(refuse_empty)
      ->type_name("FORMAT");
  add_whole_number(app, "-t,--threads", command->threads, 1, plan::kMaxThreads,
                   "Number of threads (default: 1)");
  add_opt_level(app, command->opt_level);
  add_emulator(app, command->emulator);
  add_dims(app, command->dims);
  const auto* const rtol = app.add_option("--rtol", command->tolerance.relative,
                                          "Relative tolerance of floats (default: 1e-3)")
                               ->check(refuse_negative)
                               ->capture_default_str();
  const auto* const atol =
      app.add_option("--atol", command->tolerance.absolute,
                     "Absolute tolerance of floats (default: 1e-7 + 1e-5 times the largest "
                     "expected element; f16: 5e-3, bf16: 4e-2)")
          ->check(refuse_negative);
  return [command, rtol, atol, &globals] {
    command->has_tolerance = rtol->count() > 0 || atol->count() > 0;
    return test_onnx(*command, globals);
  };
}

}  // namespace llmc::cli
