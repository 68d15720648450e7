#pragma once

#include <string>

#include "compiler/onnx/model.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/temporary_folder.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {

/// All that is wrong, one diagnostic a line.
inline std::string errors(const Error& error) {
  std::string text;
  for (const auto& d : error.diagnostics()) text += format(d) + "\n";
  return text;
}

/// What the file that `b` makes is imported as.
inline Result<importer::ImportedModel> import(const testing::OnnxBuilder& b) {
  const testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  return importer::import_model(folder.path() / "m.onnx");
}

}  // namespace llmc
