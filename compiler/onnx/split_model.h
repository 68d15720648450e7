#pragma once

#include "compiler/onnx/decoder.h"
#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// Reads what stands beside the graphs: configuration, tokenizer (checked against `vocabulary`),
/// and notes the files that are not used.
Result<LlmConfig> read_config(FileSet& files, const FolderContents& contents);
Status read_tokenizer(FileSet& files, const FolderContents& contents, ImportedModel& model);

/// A folder of block_i.onnx, lm.onnx, an embedding, llm_config.json and a tokenizer: one decoder
/// graph, blocks bound one behind the other by the names of their inputs and outputs.
Result<ImportedModel> import_split(FileSet& files, const FolderContents& contents,
                                   const ImportOptions& options);

}  // namespace llmc::importer
