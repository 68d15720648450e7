#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc::driver {

/// A new file written piece by piece, hashed on the way. Not atomic: for files inside an
/// AtomicDirectory.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::filesystem::path& path);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(std::span<const std::byte> data);
  Status write(std::string_view data);
  /// Overwrites bytes at `offset` that were written before; not hashed.
  Status patch(std::uint64_t offset, std::string_view data);
  /// xxh64 of what was written since reset_hash, or since the file was created.
  void reset_hash();
  std::uint64_t hash() const;
  /// Must be called: some file systems tell of a full disk only here.
  Status close();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace llmc::driver
