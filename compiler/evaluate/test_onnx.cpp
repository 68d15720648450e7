#include "compiler/evaluate/test_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/driver/dims.h"
#include "compiler/driver/source.h"
#include "compiler/exec/function_library.h"
#include "compiler/onnx/test_data.h"
#include "compiler/support/file.h"

namespace llmc::evaluate {
namespace {

namespace fs = std::filesystem;

std::string type_text(const ir::Constant& data) {
  return fmt::format("{}[{}]", ir::to_string(data.element()), fmt::join(data.dims(), ", "));
}

/// Returns by how much an element exceeds the tolerance; not positive if it does not.
double excess(double actual, double expected, bool exact, double relative, double absolute) {
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) && std::isnan(expected) ? 0 : HUGE_VAL;
  if (actual == expected) return 0;
  if (exact || std::isinf(actual) || std::isinf(expected)) return HUGE_VAL;
  return std::fabs(actual - expected) - (absolute + relative * std::fabs(expected));
}

double absolute_of(const Tolerance& tolerance, ir::ElementType element, double largest) {
  const double share = element == ir::ElementType::kF16    ? 5e-3
                       : element == ir::ElementType::kBF16 ? 4e-2
                                                           : 1e-5;
  return tolerance.absolute.value_or(1e-7 + share * largest);
}

Result<std::unique_ptr<exec::FunctionLibrary>> compile(const TestOnnxOptions& options,
                                                       const ir::Graph& graph,
                                                       const driver::Progress& progress) {
  driver::report(progress, "compile", 0, 0);
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{.graph = &graph, .name = "model", .open_dims = options.dims};
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
  auto run = library->run(0, bound.inputs);
  if (!run.ok()) return std::move(run).error().in_file(folder.string());
  const std::vector<ir::ConstantPtr>& outputs = *run;
  DataSetResult result;
  result.folder = folder;
  result.bound = bound.bound;
  result.arena_bytes = library->plan(0).arena_bytes;
  result.weights_bytes = library->plan(0).weights_bytes;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    result.outputs.push_back(compare(graph.value(graph.outputs()[i]).name, *outputs[i],
                                     *bound.outputs[i], options.tolerance));
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
  return std::ranges::all_of(outputs, [](const OutputDifference& o) { return o.ok(); });
}

OutputDifference compare(const std::string& name, const ir::Constant& actual,
                         const ir::Constant& expected, const Tolerance& tolerance) {
  OutputDifference result;
  result.name = name;
  result.element = expected.element();
  result.dims = expected.dims();
  if (actual.element() != expected.element() || actual.dims() != expected.dims()) {
    result.problem = fmt::format("is {}, expected {}", type_text(actual), type_text(expected));
    return result;
  }
  const bool exact = !ir::is_float(expected.element());
  if (exact && actual.bytes() == expected.bytes()) return result;
  const std::vector<double> a = ir::to_doubles(actual), e = ir::to_doubles(expected);
  const std::size_t size = ir::element_bytes(expected.element());
  const std::vector<std::byte> a_bytes = exact ? actual.bytes() : std::vector<std::byte>{};
  const std::vector<std::byte> e_bytes = exact ? expected.bytes() : std::vector<std::byte>{};
  double worst = 0;
  for (const double x : e)
    if (std::isfinite(x)) result.largest = std::max(result.largest, std::fabs(x));
  const double absolute = absolute_of(tolerance, expected.element(), result.largest);
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(e[i]))
      result.difference = std::max(result.difference, std::fabs(a[i] - e[i]));
    // Different 64-bit integers may convert to the same double.
    const bool differ =
        exact && !std::equal(&a_bytes[i * size], &a_bytes[i * size] + size, &e_bytes[i * size]);
    const double over = differ ? HUGE_VAL : excess(a[i], e[i], exact, tolerance.relative, absolute);
    if (!(over > 0)) continue;
    ++result.mismatches;
    if (over > worst) {
      worst = over;
      result.worst = static_cast<std::int64_t>(i);
      result.actual = a[i];
      result.expected = e[i];
    }
  }
  return result;
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
