#include "tests/support_onnx/onnx_builder.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/support/check.h"

namespace llmc::testing {

void OnnxBuilder::save(const std::filesystem::path& path, bool external) const {
  if (!external) return write_bytes(path, serialize());
  onnx::ModelProto copy = model;
  std::string data;
  const auto set = [](onnx::TensorProto& tensor, const char* key, const std::string& value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  for (auto& tensor : *copy.mutable_graph()->mutable_initializer()) {
    if (tensor.raw_data().size() < 64) continue;
    data.resize((data.size() + 63) / 64 * 64);
    set(tensor, "location", path.filename().string() + ".data");
    set(tensor, "offset", std::to_string(data.size()));
    set(tensor, "length", std::to_string(tensor.raw_data().size()));
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    data += tensor.raw_data();
    tensor.clear_raw_data();
  }
  write_bytes(path, copy.SerializeAsString());
  write_bytes(path.string() + ".data", data);
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code error;  // the folder may be there already; what cannot be made cannot be opened
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  LLMC_CHECK(out.good());
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  LLMC_CHECK(in.good());
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return std::move(bytes).str();
}

}  // namespace llmc::testing
