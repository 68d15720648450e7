#pragma once

#include <filesystem>
#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/exec/native.h"
#include "compiler/support/folder_lock.h"
#include "compiler/support/temporary_directory.h"

namespace llmc::exec {

/// Where a linked model is and what belongs to it.
struct LinkedModel {
  driver::BundleFacts facts;
  std::filesystem::path path;    // as the user gave it, for messages
  std::filesystem::path bundle;  // with the weights, when they are in a file
  std::filesystem::path binary;  // shared library or runner
  bool from_cache = false;
  /// Holds any of the above for as long as the model lives, when they are nobody else's.
  std::shared_ptr<const TemporaryDirectory> temporary;
  /// Keeps the cache's entry from being removed.
  std::shared_ptr<const FolderLock> in_use;
};

/// Maps the weights when they are in a file, and loads the shared library into this process.
Result<std::unique_ptr<NativeModel>> load_library(LinkedModel linked);

}  // namespace llmc::exec
