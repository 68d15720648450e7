#pragma once

#include <filesystem>

#include "compiler/support/result.h"
#include "compiler/support/signal_cleanup.h"

namespace llmc {

/// A folder in the system's temporary folder, accessible only to the current user. Removed on
/// destruction, and when a signal ends the process.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> create();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::filesystem::path path)
      : path_(std::move(path)), cleanup_(path_) {}

  std::filesystem::path path_;  // empty after a move
  SignalCleanup cleanup_;
};

}  // namespace llmc
