#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/evaluate/verify_image.h"
#include "compiler/exec/native.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

/// Compares the logits of native code with those of the interpreter, which runs the imported graph,
/// and with stored hashes.
namespace llmc::evaluate {

struct VerifyOptions {
  exec::NativeOptions native;  // compile.model: a model or a bundle
  std::uint32_t threads = 1;
  std::vector<std::int32_t> prompt;  // token ids; empty: fixed sequences within the vocabulary
  std::uint32_t steps = 8;           // greedy decode steps after the prompt
  bool long_run = true;              // without `prompt` and with 8 steps: also do the long run
  bool reference = true;             // compare with the interpreter (slow for large models)
  /// Only for a bundle: the model that it was compiled from, for the reference; empty: no
  /// reference. A model is its own reference.
  std::filesystem::path reference_model;
  std::filesystem::path golden;  // empty: the model's default file, or the hashes of the bundle
  bool require_golden = false;   // treat a missing hash as a mismatch
  bool update = false;           // rewrite the golden file instead of comparing
};

/// Comparison of the logits at one position.
struct VerifyPoint {
  std::string phase;  // "prefill", "chunk", "step"
  std::uint32_t position = 0;
  double max_difference = 0;  // maximum of |native - reference|
  double largest_logit = 0;   // maximum of |reference|
  double kl = 0;              // KL(softmax(reference) || softmax(native)), nats
  /// Token with the largest logit of each; reference_token -1: the reference was not run.
  std::int32_t native_token = 0, reference_token = 0;
};

/// The result of one run: a prompt, which is prefilled in two calls (in one if it has fewer than 3
/// tokens), and greedy decode steps.
struct VerifyRun {
  std::string name;  // "short" and "long", or "given" for VerifyOptions::prompt
  std::uint32_t prompt_tokens = 0, steps = 0;
  std::uint32_t kv_blocks = 0;          // KV blocks that hold the tokens of the run
  std::uint32_t chunk = 0, chunks = 0;  // tokens per chunk; number of chunks of the prompt
  bool reference = false;               // whether the interpreter ran
  std::vector<VerifyPoint> points;

  std::string hash;        // hash of the bits of all logits at the points
  std::string golden_key;  // key of driver/golden.h, the same for all targets and threads
  std::optional<std::string> golden_hash;  // the stored value, if any

  /// Chunk size of a second run with the same tokens, which must give the same bits; 0: not run.
  std::uint32_t other_chunk = 0;
  std::string other_hash;

  bool chunks_ok() const { return other_chunk == 0 || other_hash == hash; }
  bool golden_differs() const { return golden_hash && *golden_hash != hash; }
};

struct VerifyReport {
  /// One run, or two (see verify_model()).
  std::vector<VerifyRun> runs;
  std::string not_run;  // why the long run or its reference is omitted; empty: nothing is omitted

  // Statistics over the points of all runs with a reference.
  double max_difference = 0, mean_kl = 0, max_kl = 0;
  double greedy_agreement = 1;     // fraction of points at which both select the same token
  double relative_difference = 0;  // maximum of max_difference / largest_logit of a point
  /// Upper limits of mean_kl and of relative_difference. The latter applies only to f32 weights
  /// with an f32 cache; otherwise it is 0.
  double max_kl_allowed = 0, relative_difference_allowed = 0;
  plan::Rounding rounding;  // of the weights; the limits depend on rounding.coarsest()
  bool reference_ok = true;
  std::optional<exec::DeviceUse> device;  // what the accelerator computed, if there is one
  std::optional<VerifyImage> image;       // with a reference, if the model has a media encoder

  std::filesystem::path golden_file;  // or the plan.json that contains the hashes
  /// Numerics versions of the stored hashes and of the code that ran.
  std::string golden_numerics, numerics;
  bool golden_required = false, golden_updated = false;

  bool chunks_ok() const;
  /// Returns whether no stored hash differs and no required hash is missing.
  bool golden_ok() const;
  bool image_ok() const { return !image || image->rows.ok; }
  bool ok() const { return reference_ok && image_ok() && chunks_ok() && golden_ok(); }
};

/// Runs native code and compares its logits. With the default prompt and number of steps there are
/// two runs: a short one of 32 tokens, which is one KV block by default, and, if
/// VerifyOptions::long_run is set and the context is large enough, a long one with several KV
/// blocks and chunks. Differences are in the report and are not errors; if !ok(), the command exits
/// with code 7. Fails like load_native(), with kUsage for invalid options or a prompt that does not
/// fit the model, with kUnsupported if the reference is not a decoder, and with kBadInput if the
/// reference is another model, the file VerifyOptions::golden is missing, or a file of hashes is
/// damaged.
Result<VerifyReport> verify_model(const VerifyOptions& options,
                                  const driver::Progress& progress = {});

}  // namespace llmc::evaluate
