#pragma once

#include "compiler/driver/compile_options.h"
#include "compiler/driver/progress.h"
#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// A bound model, and what it is compiled as.
struct Source {
  importer::ImportedModel model;
  bool is_function =
      false;  // a plain graph: asked for (options.function, options.dims), or no decoder
  double import_seconds = 0;
};
/// Binds `options.model` with options.reader. kUnsupported for a decoder without a cache, unless it
/// is asked for as a function. A decoder that options.dims makes a function is reported to
/// options.import.on_warning; kUsage for one that options.dims leaves without fixed sizes.
Result<Source> read_source(const CompileOptions& options, const Progress& progress = {});

/// kUnsupported: `model`, which is not a decoder, where text is generated or measured. The hint
/// names the commands that take it.
Diagnostic not_a_decoder(const importer::ImportedModel& model);

/// kUsage: inputs of `options.model` have sizes that only `flags` (missing_dims) fix.
Diagnostic open_sizes(const CompileOptions& options, const std::string& flags);

}  // namespace llmc::driver
