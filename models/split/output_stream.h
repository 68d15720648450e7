#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

namespace llmc::models {

/// A new file that is written sequentially. It is not replaced atomically, so use it only inside an
/// AtomicDirectory.
class OutputStream {
 public:
  static Result<OutputStream> create(const std::filesystem::path& path);

  Status write(std::string_view bytes);
  /// Writes `count` two-byte elements. `fill` is called in order to generate some thousands of them
  /// at a time.
  Status write_halves(
      std::uint64_t count,
      const std::function<void(std::uint64_t first, std::span<std::uint16_t> out)>& fill);
  /// Closes the file. Must be called, because a full disk may be reported only here.
  Status close();

 private:
  explicit OutputStream(std::filesystem::path path) : path_(std::move(path)) {}
  Status check() const;

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace llmc::models
