#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/onnx/model.h"

/// The layout of ONNX's own test data: next to a model, folders test_data_set_N with input_N.pb and
/// output_N.pb, one tensor each.
namespace llmc::importer {

/// Tensors in the order of the graph's inputs and outputs, with the types in the files (4-bit
/// integers as i8 and u8).
struct DataSet {
  std::vector<ir::ConstantPtr> inputs, outputs;
};

/// Reads input_0.pb, input_1.pb, … and output_0.pb, … up to the first missing number.
Result<DataSet> read_data_set(const std::filesystem::path& folder);

/// The test_data_set_N folders in `model_folder`, by N.
std::vector<std::filesystem::path> data_set_folders(const std::filesystem::path& model_folder);

/// A model ready to run on one data set.
struct BoundModel {
  ImportedModel model;             // a plain graph; dims are those of the data
  std::vector<std::string> bound;  // inputs that became constants because shapes depend on them
  std::vector<ir::ConstantPtr> inputs;   // one for each input of model.graph, in order
  std::vector<ir::ConstantPtr> outputs;  // expected; one for each output of model.graph
};

/// Binds `model` as a plain graph for the data set in `folder`: inputs have the element types and
/// dims of the data. If a size is still unknown, inputs on which shapes may depend become
/// constants: first integers and bools of rank 0 and 1, then float scalars, then all of rank 1.
Result<BoundModel> import_with_data(const std::filesystem::path& model,
                                    const std::filesystem::path& folder,
                                    const ModelReader& reader = {});

}  // namespace llmc::importer
