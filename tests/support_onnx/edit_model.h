#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

namespace llmc::testing {

/// Applies change(onnx::GraphProto&) to the graph of a file.
template <class Change>
void edit_model(const std::filesystem::path& file, Change change) {
  onnx::ModelProto model;
  {
    std::ifstream in(file, std::ios::binary);
    ASSERT_TRUE(model.ParseFromIstream(&in)) << file;
  }
  change(*model.mutable_graph());
  std::ofstream out(file, std::ios::binary);
  ASSERT_TRUE(model.SerializeToOstream(&out)) << file;
}

/// Returns the graph's input `position_ids`, which has rank 3.
inline onnx::TypeProto::Tensor& position_ids(onnx::GraphProto& graph) {
  for (auto& input : *graph.mutable_input())
    if (input.name() == "position_ids") return *input.mutable_type()->mutable_tensor_type();
  ADD_FAILURE() << "no position_ids";
  return *graph.add_input()->mutable_type()->mutable_tensor_type();
}

}  // namespace llmc::testing
