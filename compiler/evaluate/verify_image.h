#pragma once

#include <string>

#include "compiler/evaluate/verify_plain.h"
#include "compiler/exec/native.h"
#include "compiler/ir/graph.h"

/// Compares the native code of a decoder's media encoder with the interpreter.
namespace llmc::evaluate {

struct VerifyImage {
  VerifiedOutput rows;
  bool is_sound = false;
  double relative_error_allowed = 0;  // 0: each element must be within its tolerance
  /// Hash of the bits of the rows, 16 hexadecimal digits; the same for all targets and threads.
  std::string hash;
};

/// Runs the media encoder of `session` on pseudorandom inputs of maximum sizes, and compares its
/// rows with those that the interpreter computes from `graph`, the encoder's imported graph. Fails
/// like Session::encode_image().
Result<VerifyImage> verify_image(const ir::Graph& graph, const driver::BundleFacts& facts,
                                 exec::Session& session);

}  // namespace llmc::evaluate
