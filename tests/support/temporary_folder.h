#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "compiler/support/remove_tree.h"

namespace llmc::testing {

/// A folder that is created for one test and removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "llmc-test-XXXXXX").string();
    const char* const made = ::mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    path_ = std::filesystem::canonical(name);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { remove_tree(path_); }

  const std::filesystem::path& path() const { return path_; }
  /// Returns the number of direct entries of the folder, including hidden ones.
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace llmc::testing
