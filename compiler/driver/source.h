#pragma once

#include "compiler/driver/compile_options.h"
#include "compiler/driver/progress.h"
#include "compiler/onnx/model.h"
#include "compiler/plan/size.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// An imported model and whether it is compiled as a decoder or a function.
struct Source {
  importer::ImportedModel model;
  /// Compile as a function: requested by options.function, or by options.dims unless the model is a
  /// decoder with a media encoder; or not a decoder.
  bool is_function = false;
  plan::DimRanges dims;  // sizes of a function's symbols: options.dims, or usual_dims()
  double import_seconds = 0;
};
/// Returns options.import with the fields that depend on --quant and --requantize. Pass the result
/// to every call that binds the model, so that the reader imports it only once.
importer::ImportOptions import_options(const CompileOptions& options);

/// Imports `options.model` with options.reader. If it is a decoder with a media encoder,
/// options.dims are the sizes of the encoder's inputs. Reports to options.import.on_warning which
/// default sizes a function gets, and that options.dims makes a decoder a function. Fails with
/// kUsage if options.dims makes a decoder a function, and a size has a range or remains symbolic.
/// Fails with kUnsupported for a decoder without a cache that is not compiled as a function.
Result<Source> read_source(const CompileOptions& options, const Progress& progress = {});

/// The graph of a decoder's media encoder.
struct MediaGraph {
  ir::Graph graph;       // symbols with a number are bound
  plan::DimRanges dims;  // sizes of its symbols: options.dims, or usual_dims()
};
/// Binds the symbols of `graph`, the entry kEncodeMedia of `options.model`. Fails like bind_dims(),
/// and with kUsage if a symbol has no size.
Result<MediaGraph> bind_media_dims(const ir::Graph& graph, const CompileOptions& options);

/// Returns a kUnsupported error: the command generates or evaluates text, but `model` is not a
/// decoder. The hint names the commands that accept the model.
Diagnostic not_a_decoder(const importer::ImportedModel& model);

/// Returns a kUsage error: inputs of `options.model` have symbolic sizes. The hint suggests
/// `flags`, the result of missing_dims().
Diagnostic open_sizes(const CompileOptions& options, const std::string& flags);

}  // namespace llmc::driver
