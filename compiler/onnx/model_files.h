#pragma once

#include <optional>
#include <string>

#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// Location of the files of one model, and results of reading them.
struct ModelFiles {
  std::filesystem::path path;   // as given
  std::filesystem::path shown;  // path of a single-file model in messages
  FileSet files;                // lists no files; binders use copies of it
  /// Whether the model's folder is `path`. False if `path` is one file, or if the model is a file
  /// in its subfolder onnx/.
  bool whole_folder = false;
  FolderContents contents = {};  // list_folder() if `whole_folder`, otherwise known_files()
  std::string name = {};         // file name in that folder; empty for split blocks or no model
  std::optional<EncoderDecoderFiles> parts = {};  // set for an encoder-decoder
  std::string media_encoder = {};                 // ModelFile::media_encoder
  /// Error of finding the model, set if the folder has none.
  std::optional<Error> refused = {};
  /// Result of ModelReader::bind, set after its first call.
  std::optional<Result<ImportedModel>> bound = {};
  bool float_products = false;  // ImportOptions::float_products of `bound`
};

}  // namespace llmc::importer
