#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/native.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// Native code against the reference interpreter running the original graph, and against stored
/// hashes.
namespace llmc::driver {

struct VerifyOptions {
  NativeOptions native;
  std::uint32_t threads = 1;
  std::vector<std::int32_t> prompt;  // ids; empty: a fixed sequence within the vocabulary
  std::uint32_t steps = 8;           // greedy steps after the prompt
  bool reference = true;             // compare with the interpreter (slow for large models)
  std::filesystem::path golden;      // empty: MODEL/golden-hashes.json when it exists
  bool update = false;               // rewrite the golden file instead of comparing with it
};

/// One place where logits were compared.
struct VerifyPoint {
  std::string phase;  // "prefill", "chunk", "step"
  std::uint32_t position = 0;
  double max_difference = 0;  // largest |native - reference|
  double largest_logit = 0;   // largest |reference|
  double kl = 0;              // KL(softmax(reference) || softmax(native)), nats
  std::int32_t native_token = 0, reference_token = 0;  // argmax of each
};

struct VerifyReport {
  std::vector<VerifyPoint> points;
  double max_difference = 0, mean_kl = 0, max_kl = 0;
  double greedy_agreement = 1;     // part of the points with equal argmax
  double relative_difference = 0;  // largest max_difference / largest_logit of a point
  /// Limits for the format (of mean_kl, and for f32 of relative_difference; 0: none), and whether
  /// they were kept.
  double max_kl_allowed = 0, relative_difference_allowed = 0;
  bool reference_ok = true;

  std::string hash;                        // of the bits of all logits at the points
  std::string golden_key;                  // "q4", "f32", … : equal for all targets and threads
  std::optional<std::string> golden_hash;  // stored value, when there is one
  std::filesystem::path golden_file;
  bool golden_ok = true;  // equal, or none stored
  bool golden_updated = false;
  bool ok() const { return reference_ok && golden_ok; }
};

/// Fails with kMismatch only for what stops the comparison (other sizes); differences are in the
/// report, and the command turns !ok() into exit code 7.
Result<VerifyReport> verify_model(const VerifyOptions& options, const Progress& progress = {});

}  // namespace llmc::driver
