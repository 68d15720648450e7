#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/onnx/model.h"

/// ONNX's own layout of test data: folders test_data_set_N next to a model, with one tensor in each
/// input_N.pb and output_N.pb.
namespace llmc::importer {

/// The tensors of one data set, in the order of the graph's inputs and outputs, with the types in
/// the files (4-bit integers as i8 and u8).
struct DataSet {
  std::vector<ir::ConstantPtr> inputs, outputs;
};

/// Reads input_0.pb, input_1.pb, … and output_0.pb, … up to the first missing number.
Result<DataSet> read_data_set(const std::filesystem::path& folder);

/// Returns the test_data_set_N folders in `model_folder`, by N.
std::vector<std::filesystem::path> data_set_folders(const std::filesystem::path& model_folder);

/// A model ready to run on one data set.
struct BoundModel {
  ImportedModel model;             // a plain graph; dims are those of the data
  std::vector<std::string> bound;  // inputs that became constants because shapes depend on them
  std::vector<ir::ConstantPtr> inputs;   // one for each input of the graph, in order
  std::vector<ir::ConstantPtr> outputs;  // expected results, one for each output
};

/// Binds `model` as a plain graph whose inputs have the element types and dims of the data set in
/// `folder`. While binding fails or a size is unknown, inputs on which shapes may depend become
/// constants: first integers and bools of rank 0 and 1, then float scalars, then all inputs of rank
/// 1.
Result<BoundModel> import_with_data(const std::filesystem::path& model,
                                    const std::filesystem::path& folder,
                                    const ModelReader& reader = {});

}  // namespace llmc::importer
