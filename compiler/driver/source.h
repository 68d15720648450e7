#pragma once

#include "compiler/driver/compile_options.h"
#include "compiler/driver/progress.h"
#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// An imported model and whether it is compiled as a decoder or a function.
struct Source {
  importer::ImportedModel model;
  bool is_function =
      false;  // a plain graph: requested (options.function, options.dims), or not a decoder
  double import_seconds = 0;
};
/// Imports `options.model` with options.reader. Fails with kUnsupported for a decoder without a
/// cache, unless it is compiled as a function. If options.dims makes a decoder a function, reports
/// this to options.import.on_warning, and fails with kUsage if a size remains symbolic.
Result<Source> read_source(const CompileOptions& options, const Progress& progress = {});

/// Returns a kUnsupported error: `model` is not a decoder, but the command generates or evaluates
/// text. The hint names the commands that accept the model.
Diagnostic not_a_decoder(const importer::ImportedModel& model);

/// Returns a kUsage error: inputs of `options.model` have symbolic sizes, which `flags`
/// (missing_dims) set.
Diagnostic open_sizes(const CompileOptions& options, const std::string& flags);

}  // namespace llmc::driver
