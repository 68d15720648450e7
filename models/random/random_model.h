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

/// Models of known shapes whose weights are random: for measuring compilation and speed, which
/// depend on the shape alone.
namespace llmc::models {

struct RandomShape {
  std::string_view name;
  SplitConfig config;  // f16 weights
  bool tied = false;   // the head has the embedding's values
};

/// By size.
std::span<const RandomShape> random_shapes();
/// nullptr when there is none of that name.
const RandomShape* find_random_shape(std::string_view name);

/// Numbers that the model is trained to have: a tied head counts once.
std::uint64_t parameter_count(const RandomShape& shape);
/// Bytes of the weights in the files.
std::uint64_t file_bytes(const RandomShape& shape);

using RandomProgress = std::function<void(std::int64_t files_done, std::int64_t files)>;

/// Writes the split export of the shape to `folder`, which is replaced when it is such a model
/// already; a few hundred kilobytes are in memory at a time. The files depend on shape and seed
/// alone. Matrices are N(0, (0.7 / sqrt(columns))^2), with which activations neither grow nor
/// vanish; norms 1 and biases 0, both with 0.02^2. kBadInput when the folder holds something else,
/// the disk has no room, or a file cannot be written; then nothing is left behind.
Status write_random_model(const RandomShape& shape, const std::filesystem::path& folder,
                          const RandomProgress& progress = {});

}  // namespace llmc::models
