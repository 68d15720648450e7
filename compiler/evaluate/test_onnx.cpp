#include "compiler/evaluate/test_onnx.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/driver/dims.h"
#include "compiler/driver/source.h"
#include "compiler/exec/function_library.h"
#include "compiler/onnx/test_data.h"
#include "compiler/plan/rounding.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/file.h"

namespace llmc::evaluate {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<exec::FunctionLibrary>> compile(const TestOnnxOptions& options,
                                                       const ir::Graph& graph,
                                                       const driver::Progress& progress) {
  driver::report(progress, "compile", 0, 0);
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{.graph = &graph,
                                       .name = "model",
                                       .quant = options.quant,
                                       .open_dims = options.dims,
                                       .threads = options.threads};
  LLMC_TRY(auto library,
           exec::FunctionLibrary::compile(std::span(&job, 1), options.target, options.optimization,
                                          outcome, options.opt_level, options.emulator));
  if (outcome[0]) return std::move(*outcome[0]).in_file(options.model.string());
  return library;
}

/// Compiles the model once for all data sets.
Result<std::unique_ptr<exec::FunctionLibrary>> compile_once(const TestOnnxOptions& options,
                                                            const importer::ModelReader& reader,
                                                            const driver::Progress& progress) {
  driver::report(progress, "import", 0, 0);
  LLMC_TRY(importer::ImportedModel model, reader.bind_plain(options.model));
  const auto graph = driver::bind_dims(model.module.graph(), options.dims);
  if (!graph.ok()) return importer::with_paths(graph.error(), model);
  if (const std::string flags = driver::missing_dims(*graph, options.dims); !flags.empty())
    return file_failure(ErrorKind::kUsage, options.model.string(),
                        "some sizes of its inputs are open", "give these as well: " + flags);
  return compile(options, *graph, progress);
}

/// Runs one data set. `compiled`: the model compiled for all data sets; nullptr: compile it for
/// this data set.
Result<DataSetResult> run_data_set(const TestOnnxOptions& options, const fs::path& folder,
                                   const importer::ModelReader& reader,
                                   const exec::FunctionLibrary* compiled,
                                   const driver::Progress& progress) {
  driver::report(progress, "import", 0, 0);
  LLMC_TRY(const importer::BoundModel bound,
           importer::import_with_data(options.model, folder, reader));
  const ir::Graph& graph = bound.model.graph();
  std::unique_ptr<exec::FunctionLibrary> own;
  if (compiled == nullptr) {
    LLMC_TRY(own, compile(options, graph, progress));
  } else if (!bound.bound.empty()) {
    return file_failure(ErrorKind::kUnsupported, options.model.string(),
                        fmt::format("its input '{}' decides shapes", printable(bound.bound[0])),
                        "leave --dim out: it is then compiled for each data set");
  }
  const exec::FunctionLibrary* const library = own ? own.get() : compiled;
  driver::report(progress, "run", 0, 0);
  auto run = library->run(0, bound.inputs, options.threads);
  if (!run.ok()) return std::move(run).error().in_file(folder.string());
  const std::vector<ir::ConstantPtr>& outputs = *run;
  DataSetResult result;
  result.folder = folder;
  result.bound = bound.bound;
  result.arena_bytes = library->plan(0).arena_bytes;
  result.weights_bytes = library->plan(0).weights_bytes;
  if (options.quant != ir::WeightFormat::kUnset)
    result.relative_error_allowed =
        plan::weight_format_info(plan::rounding_of(library->plan(0).program).coarsest())
            .max_relative_rms;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    result.outputs.push_back(verify_output(graph.value(graph.outputs()[i]).name, *outputs[i],
                                           *bound.outputs[i], result.relative_error_allowed,
                                           options.tolerance));
  return result;
}

/// Returns the graph in a model's folder (importer::find_model), or `model` itself. Fails with
/// kUnsupported for a split export, which has no single graph.
Result<fs::path> graph_of(const fs::path& model) {
  std::error_code unknown;
  if (!fs::is_directory(model, unknown)) return model;
  LLMC_TRY(const importer::ModelFile file, importer::find_model(model));
  if (!file.name.empty()) return model / file.folder / file.name;
  return file_failure(ErrorKind::kUnsupported, model.string(),
                      "a split export has several graphs, but test data belong to one",
                      "give the path of the .onnx file of the test data");
}

}  // namespace

bool DataSetResult::ok() const {
  return std::ranges::all_of(outputs, &VerifiedOutput::ok);
}

Result<std::vector<DataSetResult>> test_onnx(const TestOnnxOptions& options,
                                             const driver::Progress& progress) {
  std::error_code error;
  if (!fs::exists(options.data, error))
    return system_error(options.data, "open", error ? error.value() : ENOENT);
  if (!fs::is_directory(options.data, error))
    return file_failure(ErrorKind::kBadInput, options.data.string(), "is not a folder",
                        "give the folder of input_0.pb … output_0.pb …");
  std::vector<fs::path> folders;
  const bool one = fs::exists(options.data / "output_0.pb", error);
  if (one) {
    folders.push_back(options.data);
  } else {
    folders = importer::data_set_folders(options.data);
  }
  if (folders.empty())
    return file_failure(ErrorKind::kBadInput, options.data.string(), "the folder has no test data",
                        "expected input_0.pb … output_0.pb …, or folders test_data_set_0 … with "
                        "such files");
  TestOnnxOptions found = options;
  LLMC_TRY(found.model, graph_of(options.model));
  const importer::ModelReader reader;
  std::unique_ptr<exec::FunctionLibrary> compiled;
  if (!options.dims.empty()) {
    LLMC_TRY(compiled, compile_once(found, reader, progress));
  }
  std::vector<DataSetResult> results;
  for (const fs::path& folder : folders) {
    LLMC_TRY(DataSetResult result, run_data_set(found, folder, reader, compiled.get(), progress));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace llmc::evaluate
