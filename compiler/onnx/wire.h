#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc::importer {

/// Location of a tensor's raw bytes in the .onnx file.
struct DataWindow {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

/// The ModelProto serialized in `file` with each TensorProto.raw_data replaced by the 16 bytes of a
/// DataWindow, so that parsing it copies no weights. Parses protobuf's wire format and checks every
/// length against the enclosing message. Fails if the bytes are not a protobuf message, if messages
/// nest deeper than 64, or if the result is larger than `max_bytes`.
Result<std::string> strip_tensor_data(std::span<const std::byte> file, std::uint64_t max_bytes);

/// The same for a single TensorProto.
Result<std::string> strip_tensor(std::span<const std::byte> file, std::uint64_t max_bytes);

/// The window that strip_tensor_data stored in a raw_data field.
std::optional<DataWindow> decode_window(std::string_view raw_data);

}  // namespace llmc::importer
