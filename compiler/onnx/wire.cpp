#include "compiler/onnx/wire.h"

#include <cstring>

#include "compiler/support/checked_math.h"

namespace llmc::importer {
namespace {

constexpr int kMaxMessageDepth = 64;
constexpr std::size_t kWindowBytes = 16;

/// Messages that can contain a TensorProto.
enum class Message : std::uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kFunction,
  kTraining,
};

constexpr std::uint32_t kRawDataField = 9;

/// Returns the message in `field` of `parent` if it can contain a tensor. Field numbers are those
/// of onnx.proto.
std::optional<Message> child(Message parent, std::uint32_t field) {
  switch (parent) {
    case Message::kModel:
      if (field == 7) return Message::kGraph;
      if (field == 20) return Message::kTraining;
      if (field == 25) return Message::kFunction;
      break;
    case Message::kTraining:
      if (field == 1 || field == 2) return Message::kGraph;
      break;
    case Message::kGraph:
      if (field == 1) return Message::kNode;
      if (field == 5) return Message::kTensor;
      if (field == 15) return Message::kSparseTensor;
      break;
    case Message::kFunction:
      if (field == 7) return Message::kNode;
      if (field == 11) return Message::kAttribute;
      break;
    case Message::kNode:
      if (field == 5) return Message::kAttribute;
      break;
    case Message::kAttribute:
      if (field == 5 || field == 10) return Message::kTensor;
      if (field == 6 || field == 11) return Message::kGraph;
      if (field == 22 || field == 23) return Message::kSparseTensor;
      break;
    case Message::kSparseTensor:
      if (field == 1 || field == 2) return Message::kTensor;
      break;
    case Message::kTensor:
      break;
  }
  return std::nullopt;
}

Diagnostic malformed(std::uint64_t offset, std::string_view what) {
  return {.message = "not a valid ONNX file: " + std::string(what) + " at byte offset " +
                     std::to_string(offset),
          .hint = "the file may be truncated or damaged; copy or export it again"};
}

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::uint64_t varint_bytes(std::uint64_t value) {
  std::uint64_t bytes = 1;
  while (value >>= 7) ++bytes;
  return bytes;
}

void put_u64(std::string& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

class Stripper {
 public:
  Stripper(std::span<const std::byte> file, std::uint64_t max_bytes)
      : file_(file), budget_(max_bytes) {}

  /// Appends the message in [begin, end) of the file to `out`, without tensor data.
  Status message(Message kind, std::uint64_t begin, std::uint64_t end, int depth,
                 std::string& out) {
    if (depth > kMaxMessageDepth) return malformed(begin, "messages nested too deep");
    std::uint64_t at = begin;
    while (at < end) {
      const std::uint64_t field_begin = at;
      const auto tag = varint(at, end);
      if (!tag || *tag > UINT32_MAX || *tag >> 3 == 0) return malformed(field_begin, "bad tag");
      const auto field = static_cast<std::uint32_t>(*tag >> 3);
      switch (*tag & 7) {
        case 0:
          if (!varint(at, end)) return malformed(field_begin, "bad number");
          break;
        case 1:
          if (end - at < 8) return malformed(field_begin, "field past the end");
          at += 8;
          break;
        case 5:
          if (end - at < 4) return malformed(field_begin, "field past the end");
          at += 4;
          break;
        case 2: {
          const auto length = varint(at, end);
          if (!length || *length > end - at) return malformed(field_begin, "field past the end");
          const std::uint64_t content = at;
          at += *length;
          if (kind == Message::kTensor && field == kRawDataField) {
            if (!charge(varint_bytes(*tag) + varint_bytes(kWindowBytes) + kWindowBytes))
              return too_large();
            put_varint(out, *tag);
            put_varint(out, kWindowBytes);
            put_u64(out, content);
            put_u64(out, *length);
            continue;
          }
          if (const auto inner = child(kind, field)) {
            std::string nested;
            LLMC_RETURN_IF_ERROR(message(*inner, content, at, depth + 1, nested));
            // The contents of nested messages have been charged already.
            if (!charge(varint_bytes(*tag) + varint_bytes(nested.size()))) return too_large();
            put_varint(out, *tag);
            put_varint(out, nested.size());
            out += nested;
            continue;
          }
          break;
        }
        default:
          return malformed(field_begin, "unknown wire type");
      }
      if (!charge(at - field_begin)) return too_large();
      out.append(reinterpret_cast<const char*>(file_.data()) + field_begin, at - field_begin);
    }
    return ok_status();
  }

 private:
  /// Reads a varint and advances `at`; nullopt if it does not end before `end`.
  std::optional<std::uint64_t> varint(std::uint64_t& at, std::uint64_t end) const {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= end) return std::nullopt;
      const auto byte = std::to_integer<std::uint64_t>(file_[at++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  /// Subtracts `bytes` of output from the limit. Returns false if the limit is exceeded.
  bool charge(std::uint64_t bytes) {
    if (bytes > budget_) return false;
    budget_ -= bytes;
    return true;
  }

  static Diagnostic too_large() {
    return failure(ErrorKind::kBadInput,
                   "the graph's structure (without weights) exceeds the size limit",
                   "store the weights as raw data or as external data");
  }

  std::span<const std::byte> file_;
  std::uint64_t budget_;
};

Result<std::string> strip(Message root, std::span<const std::byte> file, std::uint64_t max_bytes) {
  std::string out;
  Stripper stripper(file, max_bytes);
  LLMC_RETURN_IF_ERROR(stripper.message(root, 0, file.size(), 0, out));
  return out;
}

}  // namespace

Result<std::string> strip_tensor_data(std::span<const std::byte> file, std::uint64_t max_bytes) {
  return strip(Message::kModel, file, max_bytes);
}

Result<std::string> strip_tensor(std::span<const std::byte> file, std::uint64_t max_bytes) {
  return strip(Message::kTensor, file, max_bytes);
}

std::optional<DataWindow> decode_window(std::string_view raw_data) {
  if (raw_data.size() != kWindowBytes) return std::nullopt;
  DataWindow window;
  std::memcpy(&window.offset, raw_data.data(), 8);
  std::memcpy(&window.size_bytes, raw_data.data() + 8, 8);
  return window;
}

}  // namespace llmc::importer
