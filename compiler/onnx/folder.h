#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// What a model's folder holds, by file name.
struct FolderContents {
  std::vector<std::string> blocks;             // block_0.onnx … in order, no gaps
  std::optional<std::string> embedding_table;  // embeddings_bf16.bin
  std::optional<std::string> embedding_graph;  // embedding.onnx
  std::optional<std::string> head;             // lm.onnx
  std::optional<std::string> config;           // llm_config.json
  std::optional<std::string> tokenizer_text;   // tokenizer.txt
  std::optional<std::string> tokenizer_model;  // tokenizer.model
  std::vector<std::string> others;
};

/// Lists the folder. Fails on gaps and duplicates among the blocks (block_01.onnx beside or in
/// place of block_1.onnx) and when the folder cannot be read. No blocks at all is no failure here.
Result<FolderContents> list_folder(const std::filesystem::path& folder);

/// The files of those names that stand in the folder, blocks and others left out: what belongs to a
/// model that is one file.
FolderContents known_files(const std::filesystem::path& folder);

}  // namespace llmc::importer
