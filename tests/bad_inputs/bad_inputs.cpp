#include "tests/bad_inputs/bad_inputs.h"

#include "compiler/support/check.h"

namespace llmc::testing {
namespace fs = std::filesystem;

TinyLlama small_model() {
  TinyLlamaConfig config;
  config.vocabulary = 40;
  return TinyLlama(config);
}

void expect_refused(const BadInput& input) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model";
  fs::create_directory(model);
  small_model().write(model);
  input.damage(model);
  const auto imported = importer::import_model(model);
  ASSERT_FALSE(imported.ok());
  const Diagnostic& d = imported.error().first();
  EXPECT_EQ(d.kind, input.kind) << format(d);
  if (input.file.empty())
    EXPECT_NE(d.file.find(model.string()), std::string::npos) << format(d);
  else
    EXPECT_EQ(d.file, model / input.file) << format(d);
  EXPECT_NE(d.message.find(input.message), std::string::npos) << format(d);
  for (const auto& each : imported.error().diagnostics())
    for (const char c : format(each))
      EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << input.name;
}

void edit_block(const fs::path& folder, int i,
                const std::function<void(onnx::ModelProto&)>& change) {
  const fs::path path = folder / ("block_" + std::to_string(i) + ".onnx");
  onnx::ModelProto model;
  LLMC_CHECK(model.ParseFromString(read_bytes(path)));
  change(model);
  write_bytes(path, model.SerializeAsString());
}

onnx::TensorProto& initializer(onnx::ModelProto& model, const std::string& name) {
  for (auto& tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.name() == name) return tensor;
  LLMC_CHECK(false);
  return *model.mutable_graph()->add_initializer();
}

onnx::NodeProto& node(onnx::ModelProto& model, const std::string& op) {
  for (auto& each : *model.mutable_graph()->mutable_node())
    if (each.op_type() == op) return each;
  LLMC_CHECK(false);
  return *model.mutable_graph()->add_node();
}

}  // namespace llmc::testing
