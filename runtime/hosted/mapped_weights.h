#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// A file mapped for reading; pages come in as they are used and are shared between processes. Give
/// bytes() to llmc_config::weights. The file must not shrink while it is mapped.
class MappedWeights {
 public:
  /// LLMC_ERROR_FILE when it cannot be opened or mapped, is not a regular file, or is empty.
  static Outcome<MappedWeights> open(const std::filesystem::path& path);
  MappedWeights(MappedWeights&& other) noexcept;
  MappedWeights& operator=(MappedWeights&& other) noexcept;
  ~MappedWeights();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Hands the mapping to the caller, who gives it to unmap().
  std::span<const std::byte> release() { return std::exchange(bytes_, {}); }
  static void unmap(std::span<const std::byte> bytes);

 private:
  explicit MappedWeights(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace llmc::hosted
