#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// A file that is mapped read-only. Pages are loaded when they are accessed, and processes share
/// them. Pass bytes() to llmc_config::weights. The file must not shrink while it is mapped.
class MappedWeights {
 public:
  /// Maps a file. Fails with LLMC_ERROR_FILE if it cannot be opened or mapped, is not a regular
  /// file, or is empty.
  static Outcome<MappedWeights> open(const std::filesystem::path& path);
  MappedWeights(MappedWeights&& other) noexcept;
  MappedWeights& operator=(MappedWeights&& other) noexcept;
  ~MappedWeights();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Transfers ownership of the mapping to the caller, who must call unmap().
  std::span<const std::byte> release() { return std::exchange(bytes_, {}); }
  static void unmap(std::span<const std::byte> bytes);

 private:
  explicit MappedWeights(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace llmc::hosted
