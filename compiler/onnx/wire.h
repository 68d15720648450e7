#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc::importer {

/// Where a tensor's raw bytes stand in the .onnx file.
struct DataWindow {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

/// The ModelProto serialized in `file` with each TensorProto.raw_data replaced by the 16 bytes of a
/// DataWindow, so that parsing it copies no weights. Walks protobuf's wire format with every length
/// checked against what encloses it. Fails when the bytes are no protobuf message, when messages
/// nest deeper than 64, or when what remains is larger than `max_bytes`.
Result<std::string> strip_tensor_data(std::span<const std::byte> file, std::uint64_t max_bytes);

/// The same for a TensorProto on its own.
Result<std::string> strip_tensor(std::span<const std::byte> file, std::uint64_t max_bytes);

/// The window that strip_tensor_data put in place of a raw_data field.
std::optional<DataWindow> decode_window(std::string_view raw_data);

}  // namespace llmc::importer
