#pragma once

#include <optional>
#include <string>

#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// Where the files of one model are.
struct ModelFiles {
  std::filesystem::path path;    // as given
  std::filesystem::path shown;   // the single file of the model, for messages
  FileSet files;                 // nothing mapped or listed; binders work on copies
  bool whole_folder = false;     // the given folder is the model; else the model is one file
  FolderContents contents = {};  // of the folder that the model is in
  std::string name = {};         // of the file in that folder; empty: split blocks, or no model
  /// Set if the folder has no model.
  std::optional<Error> refused = {};
  /// The result of ModelReader::bind, if it was called.
  std::optional<Result<ImportedModel>> bound = {};
};

}  // namespace llmc::importer
