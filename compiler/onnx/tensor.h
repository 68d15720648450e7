#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>

#include "compiler/ir/constant.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Maximum rank of values and constants.
inline constexpr int kMaxRank = 8;

/// TensorProto.data_type of 4-bit integers, newer than the ONNX library that this may be built
/// with.
inline constexpr int kUint4 = 21, kInt4 = 22;

/// The IR's element type for TensorProto.data_type; nullopt for strings, complex numbers and types
/// below a byte.
std::optional<ir::ElementType> element_type(int data_type);
/// "float16", "int4", … as ONNX spells it, for messages.
std::string data_type_name(int data_type);

/// The tensor as a constant (4-bit integers as u8 or i8, a view of the packed codes): raw and
/// external data are windows into the mapped file, typed fields (float_data, int32_data, …) copied.
/// Dims, data sizes, the external location (inside the model's folder) and its offset are checked.
/// `name`: for messages.
Result<ir::ConstantPtr> read_tensor(FileSet& files, const OnnxFile& file,
                                    const onnx::TensorProto& tensor, const std::string& name);

}  // namespace llmc::importer
