#include "compiler/support/temporary_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <utility>

#include "compiler/support/file.h"
#include "compiler/support/remove_tree.h"

namespace llmc {

Result<TemporaryDirectory> TemporaryDirectory::create() {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "llmc-XXXXXX").string();
  const DelayedSignals delayed;
  if (error || ::mkdtemp(pattern.data()) == nullptr)
    return system_error(pattern, "create", error ? error.value() : errno);
  return TemporaryDirectory(pattern);
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), cleanup_(std::move(other.cleanup_)) {}

TemporaryDirectory::~TemporaryDirectory() {
  if (!path_.empty()) remove_tree(path_);
}

}  // namespace llmc
