#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/ir/graph.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

/// Any graph as a native function of fixed or bounded sizes (docs/functions.md).
namespace llmc::driver {

/// A bound model, and what it is compiled as.
struct Source {
  importer::ImportedModel model;
  bool is_function = false;  // asked for (options.function, options.dims), or no decoder
  double import_seconds = 0;
};
/// Binds `options.model` with options.reader. kUnsupported for a decoder without a cache, unless it
/// is asked for as a function. A decoder that options.dims makes a function is reported to
/// options.import.on_warning; kUsage for one that options.dims leaves without fixed sizes.
Result<Source> read_source(const CompileOptions& options, const Progress& progress = {});

/// Gives symbols of the inputs' shapes their sizes and infers all types again; those with a range
/// stay symbols. `dims` names symbols or sums that inputs have ("past_sequence_length + 1"). kUsage
/// for a name that no input has, for sizes that contradict each other, for a size below 0, for one
/// of 0 that leaves no output with an element, for a range that is empty or has 0, and for a range
/// of a sum.
Result<ir::Graph> bind_dims(ir::Graph graph, const plan::DimRanges& dims);

/// kUnsupported: `model`, which is not a decoder, where text is generated or measured. The hint
/// names the commands that take it.
Diagnostic not_a_decoder(const importer::ImportedModel& model);

/// The flags that give all open sizes of the graph's inputs, except those of `given`: "--dim
/// batch_size=1 --dim length=N". Empty when there are none.
std::string missing_dims(const ir::Graph& graph, const plan::DimRanges& given = {});

/// Called after each pass with its name, time and, when wanted, the graph's text.
using PassHook = decltype(CompileOptions::on_pass);

/// Passes and plan of a graph whose shapes are fixed or have ranges (options.open_dims). `inputs`:
/// of the function's signature, those that became constants among them. `quant`: format of the
/// linear layers' matrices; kUnset: as the model has them.
Result<plan::Plan> plan_graph(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                              const plan::PlanOptions& options,
                              ir::WeightFormat quant = ir::WeightFormat::kUnset,
                              const PassHook& on_pass = {}, bool want_ir = false);

struct FunctionBundle {
  std::filesystem::path folder;
  std::string name;
  std::vector<std::string> files;  // relative to the folder, sorted
  plan::Plan plan;
  std::vector<PhaseTime> times;
};

/// Writes the bundle of targets[i] into folders[i], as compile_model for several targets does, with
/// the same errors. `options.dims` gives symbols their sizes.
Result<std::vector<FunctionBundle>> compile_function(const CompileOptions& options,
                                                     importer::ImportedModel model,
                                                     std::span<const std::string> targets,
                                                     std::span<const std::filesystem::path> folders,
                                                     const Progress& progress = {});
/// A plan for each of `targets`.
Result<std::vector<plan::Plan>> plan_function(const CompileOptions& options,
                                              importer::ImportedModel model,
                                              std::span<const std::string> targets,
                                              const Progress& progress = {});

}  // namespace llmc::driver
