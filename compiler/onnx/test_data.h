#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/onnx/model.h"

/// The layout of ONNX's own test data: beside a model, folders test_data_set_N of input_N.pb and
/// output_N.pb, one tensor each.
namespace llmc::importer {

/// Tensors in the order of the graph's inputs and outputs, as the file has them (4-bit integers as
/// i8 and u8).
struct DataSet {
  std::vector<ir::ConstantPtr> inputs, outputs;
};

/// Reads input_0.pb, input_1.pb, … and output_0.pb, … up to the first that is not there.
Result<DataSet> read_data_set(const std::filesystem::path& folder);

/// The test_data_set_N folders beside a model, by N.
std::vector<std::filesystem::path> data_set_folders(const std::filesystem::path& model_folder);

/// A model ready to run on one data set.
struct BoundModel {
  ImportedModel model;                   // kGeneric; dims are those of the data
  std::vector<std::string> bound;        // inputs that became constants, because they decide shapes
  std::vector<ir::ConstantPtr> inputs;   // one for each input of model.graph, in order
  std::vector<ir::ConstantPtr> outputs;  // expected; one for each output of model.graph
};

/// Imports `model` as a function on the inputs of the data set in `folder`. Element types and dims
/// of inputs are those of the data. Where not every size is known then, inputs that may decide
/// shapes are taken as constants: first integers and bools of rank 0 and 1, then float scalars,
/// then all of rank 1.
Result<BoundModel> import_with_data(const std::filesystem::path& model,
                                    const std::filesystem::path& folder,
                                    const ImportOptions& options = {});

}  // namespace llmc::importer
