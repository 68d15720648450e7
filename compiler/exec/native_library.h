#pragma once

#include <filesystem>
#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/exec/native.h"
#include "compiler/support/folder_lock.h"
#include "compiler/support/temporary_directory.h"

namespace llmc::exec {

/// The files of a linked model.
struct LinkedModel {
  driver::BundleFacts facts;
  std::filesystem::path path;    // given by the user, for messages
  std::filesystem::path bundle;  // has the weights if they are in a file
  std::filesystem::path binary;  // shared library or runner
  bool from_cache = false;
  /// Owns temporary files of the above.
  std::shared_ptr<const TemporaryDirectory> temporary;
  /// Prevents removal of the cache's entry.
  std::shared_ptr<const FolderLock> in_use;
};

/// Maps the weights if they are in a file, and loads the shared library into this process.
Result<std::unique_ptr<NativeModel>> load_library(LinkedModel linked);

}  // namespace llmc::exec
