#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "compiler/onnx/model.h"
#include "tests/support_onnx/tiny_llama.h"

/// A tiny model that is whole, one thing done to it, and what the importer has to say.
namespace llmc::testing {

struct BadInput {
  std::string name;
  /// Damages the split model in `folder`.
  std::function<void(const std::filesystem::path& folder)> damage;
  ErrorKind kind = ErrorKind::kBadInput;
  std::string file;     // what the diagnostic has to name; "" for the folder itself
  std::string message;  // part of the message
};

inline void PrintTo(const BadInput& input, std::ostream* out) {
  *out << input.name;
}

inline std::string name_of(const ::testing::TestParamInfo<BadInput>& info) {
  return info.param.name;
}

/// Writes the model, damages it, imports it and compares. The text printed for the user may hold no
/// control character.
void expect_refused(const BadInput& input);

/// The small model that is damaged: two layers, hidden 24, vocabulary 40.
TinyLlama small_model();

/// Reads block `i`, lets `change` work on it, writes it back.
void edit_block(const std::filesystem::path& folder, int i,
                const std::function<void(onnx::ModelProto&)>& change);
/// The initializer of that name.
onnx::TensorProto& initializer(onnx::ModelProto& model, const std::string& name);
/// The first node of that operator.
onnx::NodeProto& node(onnx::ModelProto& model, const std::string& op);

}  // namespace llmc::testing
