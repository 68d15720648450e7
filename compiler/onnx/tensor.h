#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>

#include "compiler/ir/constant.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Maximum rank of graph inputs, constants and results of Unsqueeze. Other results are not checked.
inline constexpr int kMaxRank = 8;

/// TensorProto.data_type of 4-bit integers, which older ONNX libraries do not define.
inline constexpr int kUint4 = 21, kInt4 = 22;

/// Returns the IR's element type for TensorProto.data_type; nullopt for strings, complex
/// numbers, 8-bit floats and types smaller than a byte.
std::optional<ir::ElementType> element_type(int data_type);
/// Returns the type's name in ONNX, such as "float16" or "int4", for messages.
std::string data_type_name(int data_type);

/// Returns the tensor as a constant. Raw and external data of more than 128 bytes are views of the
/// mapped file; smaller data and typed fields (float_data, int32_data, …) are copied. 4-bit
/// integers become u8 or i8, as a view of the packed codes. `name` is used in messages. Fails
/// with kBadInput if dims, elements, data sizes, or location and offset of external data are
/// invalid, or if FileSet::map() rejects the location. Fails with kUnsupported for other element
/// types.
Result<ir::ConstantPtr> read_tensor(FileSet& files, const OnnxFile& file,
                                    const onnx::TensorProto& tensor, const std::string& name);

}  // namespace llmc::importer
