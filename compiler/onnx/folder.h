#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/config.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The files of a model's folder, by name.
struct FolderContents {
  std::vector<std::string> blocks;             // block_0.onnx … in order, no gaps
  std::optional<std::string> embedding_table;  // embeddings_bf16.bin or embedding_bf16.bin
  std::optional<std::string> embedding_graph;  // embedding.onnx, or embed_tokens*.onnx (storage.h)
  std::optional<std::string> head;             // lm.onnx
  std::optional<std::string> config;           // llm_config.json
  std::optional<std::string> tokenizer_text;   // tokenizer.txt
  std::optional<std::string> tokenizer_model;  // tokenizer.model
  std::vector<std::string> others;
};

/// Lists the folder. Fails if the folder cannot be read, or if block numbers have gaps,
/// leading zeros or more than 4 digits. A folder without blocks is accepted.
Result<FolderContents> list_folder(const std::filesystem::path& folder);

/// Returns the files next to a single-file model. `blocks`, `head` and `others` are empty.
FolderContents known_files(const std::filesystem::path& folder);

/// Reads llm_config.json. Returns an empty configuration if there is no such file.
Result<LlmConfig> read_config(FileSet& files, const FolderContents& contents);

/// Checks tokenizer.txt; if there is none, only maps tokenizer.model. Returns nullopt if there is
/// neither. Fails if tokenizer.txt is malformed or does not fit `vocabulary`, the number of logits.
Result<std::optional<TokenizerFile>> read_tokenizer(FileSet& files, const FolderContents& contents,
                                                    std::int64_t vocabulary);

}  // namespace llmc::importer
