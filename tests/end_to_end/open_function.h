#pragma once

#include <filesystem>

#include "tests/support_onnx/onnx_builder.h"

namespace llmc::tests {

/// y = exp(x), z = exp(e): sizes that are open, one of them a sum, one without a name.
inline std::filesystem::path write_open_function(const std::filesystem::path& folder) {
  testing::OnnxBuilder b(17);
  b.float_input("x", {"batch_size", "past_sequence_length + 1"});
  b.float_input("e", {"batch_size", "past_sequence_length", "encoder/sequence"});
  auto& unnamed = *b.graph().mutable_input(1)->mutable_type()->mutable_tensor_type();
  unnamed.mutable_shape()->add_dim();
  b.node("Exp", {"x"}, {}, "y");
  b.node("Exp", {"e"}, {}, "z");
  b.float_output("y", {"batch_size", "past_sequence_length + 1"});
  b.float_output("z", {"batch_size", "past_sequence_length", "encoder/sequence", "more"});
  b.save(folder / "open.onnx");
  return folder / "open.onnx";
}

}  // namespace llmc::tests
