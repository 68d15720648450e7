#pragma once

#include <vector>

#include "compiler/driver/bundle_files.h"
#include "compiler/exec/session.h"
#include "compiler/ir/constant.h"

namespace llmc::exec {

/// Pseudorandom inputs of a media encoder, with the maximum sizes of open dims, and the rows that
/// the encoder computes from them.
struct RandomMediaInput {
  std::vector<ir::ConstantPtr> inputs;
  std::vector<std::vector<std::byte>> data;  // of the inputs
  std::vector<float> rows;

  /// Returns views of the data.
  std::vector<std::span<const std::byte>> spans() const { return {data.begin(), data.end()}; }
};
/// Encodes pseudorandom inputs (random_tensor()): floats in [-1, 1), and integers 0 and 1, or only
/// 0 if 1 is an index out of range. Fails like Session::encode_image().
Result<RandomMediaInput> encode_random_media(const driver::BundleFacts& facts, Session& session);

}  // namespace llmc::exec
