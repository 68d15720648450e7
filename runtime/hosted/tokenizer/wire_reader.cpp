#include "runtime/hosted/tokenizer/wire_reader.h"

namespace llmc::hosted {

std::optional<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> WireReader::fixed(std::size_t bytes) {
  if (rest_.size() < bytes) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(rest_[i]);
  rest_.remove_prefix(bytes);
  return value;
}

std::optional<WireField> WireReader::next() {
  if (failed_ || rest_.empty()) return std::nullopt;
  failed_ = true;  // cleared after the field has been read
  const auto tag = varint();
  if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1FFFFFFF) return std::nullopt;
  WireField field;
  field.number = static_cast<std::uint32_t>(*tag >> 3);
  std::optional<std::uint64_t> value;
  switch (*tag & 7) {
    case 0:
      field.kind = WireField::Kind::kVarint;
      value = varint();
      break;
    case 1:
      field.kind = WireField::Kind::kFixed64;
      value = fixed(8);
      break;
    case 2:
      field.kind = WireField::Kind::kBytes;
      value = varint();
      if (value && *value <= rest_.size()) {
        field.bytes = rest_.substr(0, static_cast<std::size_t>(*value));
        rest_.remove_prefix(static_cast<std::size_t>(*value));
      } else {
        value.reset();
      }
      break;
    case 5:
      field.kind = WireField::Kind::kFixed32;
      value = fixed(4);
      break;
    default:
      break;
  }
  if (!value) return std::nullopt;
  field.value = *value;
  failed_ = false;
  return field;
}

}  // namespace llmc::hosted
