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

/// Returns the serialized ModelProto in `file` with each TensorProto.raw_data replaced by the 16
/// bytes of a DataWindow, so that parsing the result copies no weights. Checks every length in the
/// wire format against the enclosing message. Fails if the bytes are not a protobuf message, if
/// messages nest deeper than 64, or if the result is larger than `max_bytes`.
Result<std::string> strip_tensor_data(std::span<const std::byte> file, std::uint64_t max_bytes);

/// Does the same for a file that contains one TensorProto.
Result<std::string> strip_tensor(std::span<const std::byte> file, std::uint64_t max_bytes);

/// Returns the window that strip_tensor_data stored in a raw_data field, or nullopt if there is
/// none.
std::optional<DataWindow> decode_window(std::string_view raw_data);

}  // namespace llmc::importer
