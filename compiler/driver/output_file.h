#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc::driver {

/// A new file that is written in pieces and hashed at the same time. Not atomic: use it for files
/// inside an AtomicDirectory.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::filesystem::path& path);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(std::span<const std::byte> data);
  Status write(std::string_view data);
  /// Overwrites bytes at `offset` that were already written. The hash still covers the old bytes.
  Status patch(std::uint64_t offset, std::string_view data);
  /// Restarts the hash: it then covers only bytes written later.
  void reset_hash();
  /// Returns the xxh64, with seed 0, of the bytes written.
  std::uint64_t hash() const;
  /// Closes the file. This call is required, because some file systems report a full disk only
  /// here.
  Status close();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace llmc::driver
