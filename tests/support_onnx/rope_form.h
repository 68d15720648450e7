#pragma once

#include <cstdint>
#include <string>

#include "tests/support_onnx/onnx_builder.h"

namespace llmc::testing {

/// How exporters spell rotary embeddings.
enum class RopeForm {
  kHalves,
  kInterleaved,
  kTable,
  // Multimodal RoPE, with positions [3, batch, seq]:
  kSections,        // parts of the cosines and sines of each row, in chunks
  kStoredSections,  // the angles of one row, in which every second is stored from another row
  kNone,
};

bool has_sections(RopeForm form);

/// Cosines and sines [1, 1, seq, 4].
struct RopeAngles {
  std::string cosines, sines;
};
/// Appends those of positions [1, seq], or [3, 1, seq] with sections. `float_type` is that of `b`;
/// the form is not kTable.
RopeAngles rope_angles(OnnxBuilder& b, RopeForm form, const std::string& positions, int float_type);

}  // namespace llmc::testing
