// Files that are no longer what an exporter wrote: cut, flipped, spliced. Whatever comes, the
// importer takes it or refuses it; under the sanitizers that also says that it reads nothing it
// should not.

#include <random>

#include "compiler/onnx/wire.h"
#include "tests/bad_inputs/bad_inputs.h"

namespace llmc::testing {
namespace {

namespace fs = std::filesystem;

class DamagedBlock : public ::testing::Test {
 protected:
  void SetUp() override {
    TinyLlamaConfig config;
    config.vocabulary = 40;
    config.hidden = 8;
    config.head_dim = 4;
    config.heads = 2;
    config.kv_heads = 1;
    config.intermediate = 8;
    config.layers = 1;
    TinyLlama(config).write(folder_.path());
    path_ = folder_.path() / "block_0.onnx";
    bytes_ = read_bytes(path_);
  }
  /// Imports the folder with this block; true when it was taken.
  bool import(std::string_view bytes) {
    write_bytes(path_, bytes);
    const auto imported = importer::import_model(folder_.path());
    if (imported.ok()) return true;
    EXPECT_FALSE(imported.error().first().message.empty());
    EXPECT_FALSE(imported.error().first().file.empty());
    return false;
  }

  TemporaryFolder folder_;
  fs::path path_;
  std::string bytes_;
};

TEST_F(DamagedBlock, CutAtAnyLengthIsRefused) {
  for (std::size_t length = 0; length < bytes_.size(); length += length < 64 ? 1 : 97) {
    ASSERT_FALSE(import(std::string_view(bytes_).substr(0, length))) << length;
  }
  EXPECT_FALSE(import(std::string_view(bytes_).substr(0, bytes_.size() - 1)));
  EXPECT_TRUE(import(bytes_));
}

TEST_F(DamagedBlock, FlippedBytesNeverCrash) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = bytes_;
    for (unsigned i = 0; i < 1 + random() % 8; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    import(bytes);
  }
}

TEST_F(DamagedBlock, SplicedBytesNeverCrash) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = bytes_;
    const std::size_t from = random() % bytes.size(), to = random() % bytes.size();
    const std::size_t length = std::min<std::size_t>(1 + random() % 300, bytes.size() - from);
    if (round % 2 == 0)
      bytes.erase(from, length);
    else
      bytes.insert(to, bytes_.substr(from, length));
    import(bytes);
  }
}

/// The structure alone, without weights: most random changes hit something that means something.
TEST_F(DamagedBlock, MutatedStructureNeverCrashes) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes_));
  std::mt19937 random(3);
  const auto& nodes = model.graph().node();
  const auto any_node = [&] { return static_cast<int>(random() % nodes.size()); };
  for (int round = 0; round < 400; ++round) {
    onnx::ModelProto copy = model;
    auto& node = *copy.mutable_graph()->mutable_node(any_node());
    auto& tensor = *copy.mutable_graph()->mutable_initializer(
        static_cast<int>(random() % copy.graph().initializer_size()));
    switch (random() % 7) {
      case 0:
        node.set_op_type(nodes[any_node()].op_type());
        break;
      case 1:
        node.set_input(0, nodes[any_node()].output(0));
        break;
      case 2:
        if (tensor.dims_size() > 0)
          tensor.set_dims(0, static_cast<std::int64_t>(random()) - (1 << 30));
        break;
      case 3:
        tensor.set_data_type(static_cast<int>(random() % 30));
        break;
      case 4:
        if (!tensor.raw_data().empty())
          (*tensor.mutable_raw_data())[0] = static_cast<char>(random());
        break;
      case 5:
        if (node.attribute_size() > 0)
          node.mutable_attribute(0)->set_i(static_cast<std::int64_t>(random() % 12) - 6);
        break;
      default:
        node.add_input(nodes[any_node()].output(0));
    }
    import(copy.SerializeAsString());
  }
}

TEST_F(DamagedBlock, OtherFormatsAreRefused) {
  EXPECT_FALSE(import("GGUF\x03"));
  EXPECT_FALSE(import("PK\x03\x04"));
  EXPECT_FALSE(import(std::string(4096, '\0')));
  EXPECT_FALSE(import(std::string(4096, '\xff')));
  EXPECT_FALSE(import("{\"model\": 1}"));
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

// Graphs inside attributes inside nodes inside graphs …
TEST(Wire, DeepNestingIsRefused) {
  std::string message;
  for (int i = 0; i < 2000; ++i) {
    for (const char tag :
         {'\x32' /* attribute.g */, '\x2a' /* node.attribute */, '\x0a' /* graph.node */})
      message = tag + varint(message.size()) + message;
  }
  message = '\x3a' + varint(message.size()) + message;
  const auto stripped = importer::strip_tensor_data(as_bytes(message), 1 << 30);
  ASSERT_FALSE(stripped.ok());
  EXPECT_NE(stripped.error().first().message.find("too deep"), std::string::npos);
}

TEST(Wire, LengthsBeyondTheirMessageAreRefused) {
  // A graph of 4 bytes holding an initializer that says it has 100, and 2^64 - 1.
  for (const std::uint64_t length : {std::uint64_t{100}, UINT64_MAX}) {
    const std::string tensor = "\x2a" + varint(length);
    const std::string message = "\x3a" + varint(tensor.size()) + tensor + std::string(200, 'x');
    EXPECT_FALSE(importer::strip_tensor_data(as_bytes(message), 1 << 30).ok()) << length;
  }
}

TEST(Wire, RawDataBecomesAWindow) {
  const std::string payload(1000, 'w');
  onnx::ModelProto model;
  auto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("t");
  tensor.set_raw_data(payload);
  auto& attribute = *model.mutable_graph()->add_node()->add_attribute();
  attribute.mutable_t()->set_raw_data("abc");
  const std::string file = model.SerializeAsString();
  const auto stripped = importer::strip_tensor_data(as_bytes(file), 1 << 30);
  ASSERT_TRUE(stripped.ok());
  EXPECT_LT(stripped->size(), 200u);
  onnx::ModelProto structure;
  ASSERT_TRUE(structure.ParseFromString(*stripped));
  EXPECT_EQ(structure.graph().initializer(0).name(), "t");
  const auto window = importer::decode_window(structure.graph().initializer(0).raw_data());
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(file.substr(window->offset, window->size_bytes), payload);
  const auto small = importer::decode_window(structure.graph().node(0).attribute(0).t().raw_data());
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(file.substr(small->offset, small->size_bytes), "abc");
}

TEST(Wire, StructureIsBounded) {
  onnx::ModelProto model;
  model.set_doc_string(std::string(5000, 'd'));
  const std::string file = model.SerializeAsString();
  EXPECT_FALSE(importer::strip_tensor_data(as_bytes(file), 1000).ok());
  EXPECT_TRUE(importer::strip_tensor_data(as_bytes(file), 10000).ok());
}

/// Empty raw_data fields become windows of sixteen bytes each, so that the output outgrows the
/// file: all of it counts, whatever it is made of.
TEST(Wire, WhatReplacesDataIsBoundedToo) {
  constexpr std::size_t kTensors = 1000;
  std::string graph;
  for (std::size_t i = 0; i < kTensors; ++i) graph += std::string("\x2a\x02\x4a\x00", 4);
  const std::string file = "\x3a" + varint(graph.size()) + graph;
  const auto all = importer::strip_tensor_data(as_bytes(file), 1 << 20);
  ASSERT_TRUE(all.ok());
  EXPECT_GT(all->size(), file.size());
  EXPECT_TRUE(importer::strip_tensor_data(as_bytes(file), all->size()).ok());
  EXPECT_FALSE(importer::strip_tensor_data(as_bytes(file), all->size() - 1).ok());
  EXPECT_FALSE(importer::strip_tensor_data(as_bytes(file), file.size()).ok());
}

TEST(Wire, EmptyMessagesAreBoundedToo) {
  std::string graph;
  for (std::size_t i = 0; i < 1000; ++i) graph += std::string("\x0a\x00", 2);  // nodes
  const std::string file = "\x3a" + varint(graph.size()) + graph;
  EXPECT_TRUE(importer::strip_tensor_data(as_bytes(file), file.size()).ok());
  EXPECT_FALSE(importer::strip_tensor_data(as_bytes(file), 100).ok());
}

}  // namespace
}  // namespace llmc::testing
