#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/support/result.h"

/// ONNX test data: folders `test_data_set_N` with `input_K.pb` and `output_K.pb`, one TensorProto
/// each.
namespace llmc::importer {

struct NamedTensor {
  std::string name;  // as the file says; may be empty
  ir::ConstantPtr data;
};

/// Reads one TensorProto. kBadInput when it is none or damaged; kUnsupported for strings, complex
/// numbers, sequences and optional values.
Result<NamedTensor> read_tensor_file(const std::filesystem::path& path);

/// Names of a model's inputs that no initializer gives, and of its outputs, in the file's order.
struct ModelPorts {
  std::vector<std::string> inputs, outputs;
};
Result<ModelPorts> read_ports(const std::filesystem::path& model);

struct TestDataSet {
  std::filesystem::path folder;
  std::vector<NamedTensor> inputs, outputs;
};

/// The data sets of a model's test folder: `folder` itself when it holds input or output files, else
/// its folders test_data_set_0, _1, …; kBadInput when there are none.
Result<std::vector<TestDataSet>> read_test_data(const std::filesystem::path& folder);

}  // namespace llmc::importer
