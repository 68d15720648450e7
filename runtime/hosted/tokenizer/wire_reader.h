#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace llmc::hosted {

/// A field of a protocol buffers message.
struct WireField {
  std::uint32_t number = 0;
  enum class Kind : std::uint8_t { kVarint, kFixed64, kBytes, kFixed32 } kind = Kind::kVarint;
  std::uint64_t value = 0;  // kVarint, kFixed64, kFixed32
  std::string_view bytes;   // kBytes
};

/// Reads the fields of a message in order and checks every length. Groups, field numbers out of
/// range (0, or 2^29 and more) and varints that are too long are errors.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}
  /// Returns the next field; nullopt at the end of the message or after an error.
  std::optional<WireField> next();
  /// Returns whether there was an error.
  bool failed() const { return failed_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::uint64_t> fixed(std::size_t bytes);

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace llmc::hosted
