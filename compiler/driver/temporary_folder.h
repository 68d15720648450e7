#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "compiler/support/file.h"
#include "compiler/support/remove_tree.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// A new folder that goes with everything in it when this does.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    std::string pattern = (std::filesystem::temp_directory_path(error) / "llmc-XXXXXX").string();
    if (error || ::mkdtemp(pattern.data()) == nullptr) {
      return system_error(pattern, "create", error ? error.value() : errno);
    }
    return TemporaryFolder(pattern);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    if (!path_.empty()) remove_tree(path_);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace llmc::driver
