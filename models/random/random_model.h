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

/// Models with the shapes of well-known models and random weights, for measurements of compile time
/// and speed, which depend only on the shape.
namespace llmc::models {

struct RandomShape {
  std::string_view name;
  SplitConfig config;  // f16 weights
  bool tied = false;   // the head has the weights of the embedding
};

/// Returns all shapes, sorted by size.
std::span<const RandomShape> random_shapes();
/// Returns nullptr if there is no shape with this name.
const RandomShape* find_random_shape(std::string_view name);

/// Returns the number of parameters. A tied head is not counted in addition to the embedding.
std::uint64_t parameter_count(const RandomShape& shape);
/// Returns the total size of the weights in the files, in bytes.
std::uint64_t file_bytes(const RandomShape& shape);

using RandomProgress = std::function<void(std::int64_t files_done, std::int64_t files)>;

/// Writes the split export of the shape to `folder`, replacing such a model if the folder contains
/// one. Needs a few hundred kilobytes of memory. The files depend only on shape and seed. Matrices
/// are N(0, (0.7 / sqrt(columns))^2), so that activations neither grow nor vanish. Norms have mean
/// 1, biases mean 0, both with deviation 0.02. Fails with kBadInput if the folder contains other
/// files, the disk is full, or a file cannot be written; no files are left then.
Status write_random_model(const RandomShape& shape, const std::filesystem::path& folder,
                          const RandomProgress& progress = {});

}  // namespace llmc::models
