#pragma once

#include <filesystem>

#include "compiler/support/result.h"
#include "compiler/support/signal_cleanup.h"

namespace llmc {

/// A folder below the system's one for temporary files, for this user alone. It goes with the
/// object, and when a signal ends the process.
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

  std::filesystem::path path_;  // empty once moved from
  SignalCleanup cleanup_;
};

}  // namespace llmc
