#pragma once

#include "compiler/onnx/decoder.h"
#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// A model in one file. It is a decoder when it has the inputs of hugging_face.h, or those of the
/// split form with the layers' caches stacked (past_key_values [L, 2, 1, …]; embeddings as input,
/// their table in `beside`). Any other graph is imported as it is, with its own inputs and outputs.
Result<ImportedModel> import_single(FileSet& files, const std::string& name,
                                    const FolderContents& contents, const ImportOptions& options);

}  // namespace llmc::importer
