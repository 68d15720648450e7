#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/result.h"
#include "models/split/config.h"

/// Models of known shapes with random weights, for measuring compile time and speed, which depend
/// only on the shape.
namespace llmc::models {

struct RandomShape {
  std::string_view name;
  SplitConfig config;  // f16 weights
  bool tied = false;   // the head uses the embedding's values
};

/// Returns all shapes, sorted by size.
std::span<const RandomShape> random_shapes();
/// Returns nullptr if there is no shape with this name.
const RandomShape* find_random_shape(std::string_view name);

/// Returns the number of trained parameters; a tied head counts once.
std::uint64_t parameter_count(const RandomShape& shape);
/// Returns the size of the weights in the files.
std::uint64_t file_bytes(const RandomShape& shape);

using RandomProgress = std::function<void(std::int64_t files_done, std::int64_t files)>;

/// Writes the split export of the shape to `folder`, which is replaced if it contains such a model;
/// needs a few hundred kilobytes of memory. The files depend only on shape and seed. Matrices are
/// N(0, (0.7 / sqrt(columns))^2), with which activations neither grow nor vanish; norms have mean
/// 1, biases mean 0, both with deviation 0.02. kBadInput if the folder contains anything else, the
/// disk is full, or a file cannot be written; then nothing is left.
Status write_random_model(const RandomShape& shape, const std::filesystem::path& folder,
                          const RandomProgress& progress = {});

}  // namespace llmc::models
