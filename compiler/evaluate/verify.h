#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/exec/native.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

/// Compares native code with the interpreter, which runs the original graph, and with stored
/// hashes.
namespace llmc::evaluate {

struct VerifyOptions {
  exec::NativeOptions native;  // compile.model: a model or a bundle
  std::uint32_t threads = 1;
  std::vector<std::int32_t> prompt;  // ids; empty: fixed sequences within the vocabulary
  std::uint32_t steps = 8;           // greedy steps after the prompt
  bool long_run = true;              // without `prompt`: the long run after the short one
  bool reference = true;             // compare with the interpreter (slow for large models)
  /// The model from which a bundle was compiled, for the reference; empty: no reference.
  std::filesystem::path reference_model;
  std::filesystem::path golden;  // empty: the model's default file, or the hashes of the bundle
  bool require_golden = false;   // a missing hash is a mismatch
  bool update = false;           // rewrite the golden file instead of comparing
};

/// A comparison of logits at one position.
struct VerifyPoint {
  std::string phase;  // "prefill", "chunk", "step"
  std::uint32_t position = 0;
  double max_difference = 0;  // largest |native - reference|
  double largest_logit = 0;   // largest |reference|
  double kl = 0;              // KL(softmax(reference) || softmax(native)), nats
  std::int32_t native_token = 0, reference_token = 0;  // argmax of each; reference -1: not run
};

/// A prompt, prefilled in two calls, and greedy steps after it.
struct VerifyRun {
  std::string name;  // "short" and "long", or "given" for VerifyOptions::prompt
  std::uint32_t prompt_tokens = 0, steps = 0;
  std::uint32_t kv_blocks = 0;  // with the run's tokens
  std::uint32_t chunk = 0, chunks = 0;
  bool reference = false;  // whether the interpreter ran
  std::vector<VerifyPoint> points;

  std::string hash;                        // of the bits of all logits at the points
  std::string golden_key;                  // "q4,kv=f16", …: the same for all targets and threads
  std::optional<std::string> golden_hash;  // the stored value, if any

  /// The same tokens in chunks of another size, which must give the same bits; 0: not run.
  std::uint32_t other_chunk = 0;
  std::string other_hash;

  bool chunks_ok() const { return other_chunk == 0 || other_hash == hash; }
  bool golden_differs() const { return golden_hash && *golden_hash != hash; }
};

struct VerifyReport {
  std::vector<VerifyRun>
      runs;             // at least one; the long run is left out if the context is too small
  std::string not_run;  // reason why a run or the reference is omitted; empty: none is

  // Over the points of all runs with a reference.
  double max_difference = 0, mean_kl = 0, max_kl = 0;
  double greedy_agreement = 1;     // fraction of points with equal argmax
  double relative_difference = 0;  // largest max_difference / largest_logit of a point
  /// Limits of mean_kl and, for f32, of relative_difference (0: none), and whether they are met.
  double max_kl_allowed = 0, relative_difference_allowed = 0;
  plan::Rounding rounding;  // of the weights; the limits are those of rounding.coarsest()
  bool reference_ok = true;

  std::filesystem::path golden_file;  // or the plan.json with the hashes
  /// Versions of the numerics: of the stored hashes, and of the code that ran.
  std::string golden_numerics, numerics;
  bool golden_required = false, golden_updated = false;

  bool chunks_ok() const;
  /// Whether no stored hash differs and no required one is missing.
  bool golden_ok() const;
  bool ok() const { return reference_ok && chunks_ok() && golden_ok(); }
};

/// Runs native code and compares. Without VerifyOptions::prompt there are two runs: a short one of
/// one KV block, and a long one of several KV blocks and chunks. Differences are in the report, not
/// errors; the command exits with code 7 if !ok().
Result<VerifyReport> verify_model(const VerifyOptions& options,
                                  const driver::Progress& progress = {});

}  // namespace llmc::evaluate
