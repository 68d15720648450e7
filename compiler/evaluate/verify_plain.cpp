#include "compiler/evaluate/verify_plain.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "compiler/driver/dims.h"
#include "compiler/exec/function_library.h"
#include "compiler/exec/random_inputs.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/reference/interpreter.h"

namespace llmc::evaluate {

std::string hash_of(const std::vector<ir::ConstantPtr>& outputs) {
  XXH64_hash_t hash = 0;
  for (const ir::ConstantPtr& output : outputs) {
    const std::vector<std::byte> bytes = output->bytes();
    hash = XXH64(bytes.data(), bytes.size(), hash);
  }
  return fmt::format("{:016x}", hash);
}

bool VerifyPlainReport::ok() const {
  return same_bits && std::ranges::all_of(outputs, &VerifiedOutput::ok);
}

Result<VerifyPlainReport> verify_plain(const VerifyPlainOptions& options, driver::Source source,
                                       const driver::Progress& progress) {
  driver::CompileOptions compile = options.compile;
  compile.threads_max = std::max(compile.threads_max, options.threads);
  // Bind the reference to the sizes of the run, the maximums, so that it does not depend on
  // decisions that the compiler makes for ranges.
  plan::DimRanges bounds;
  for (const auto& [symbol, range] : source.dims) bounds.emplace(symbol, range.max);
  const auto graph = driver::bind_dims(source.model.graph(), bounds);
  if (!graph.ok()) return importer::with_paths(graph.error(), source.model);
  LLMC_TRY(const auto library,
           exec::FunctionLibrary::compile(compile, std::move(source), options.emulator, progress));
  const plan::Plan& plan = library->plan(0);
  driver::report(progress, "run", 0, 0);
  const auto run = exec::run_with_random_inputs(*library, 0);
  if (!run.ok()) return Error(run.error()).in_file(compile.model.string());
  const std::vector<ir::ConstantPtr>& actual = run->outputs;
  driver::report(progress, "reference", 0, 0);
  std::vector<reference::Tensor> tensors;
  for (const ir::ConstantPtr& input : run->inputs) tensors.push_back(reference::to_tensor(*input));
  LLMC_TRY(const std::vector<reference::Tensor> expected, reference::evaluate(*graph, tensors));

  VerifyPlainReport report;
  report.rounding = plan::rounding_of(plan.program);
  report.relative_error_allowed =
      plan::weight_format_info(report.rounding.coarsest()).max_relative_rms;
  report.hash = hash_of(actual);
  report.emulator = library->emulator();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ir::ConstantPtr want = reference::to_constant(expected[i]);
    report.outputs.push_back(verify_output(plan.program.outputs[i].name, *actual[i], *want,
                                           report.relative_error_allowed));
  }
  if (options.threads > 1 && report.emulator.empty()) {
    report.threads = options.threads;
    LLMC_TRY(const auto again, library->run(0, run->inputs, options.threads));
    report.same_bits = hash_of(again) == report.hash;
  }
  return report;
}

}  // namespace llmc::evaluate
