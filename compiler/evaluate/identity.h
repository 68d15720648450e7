#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/evaluate/logits.h"
#include "compiler/exec/native.h"
#include "compiler/support/result.h"

/// Checks that logits are bit-identical on all targets, for all accelerators, numbers of threads
/// and chunk sizes.
namespace llmc::evaluate {

/// The combinations to run.
struct IdentityOptions {
  std::vector<std::filesystem::path> models;
  std::vector<passes::QuantScheme> formats = {passes::kQ4Mixed};
  std::vector<KvFormats> caches;  // empty: the default for each format
  /// The first target is the reference, with the first of each of the following lists.
  std::vector<std::string> targets;
  std::vector<std::uint32_t> opt_levels = {3};  // levels run on each target
  /// Accelerators to use on each target; "": none. Under an emulator, there are none.
  std::vector<std::string> devices = {""};
  std::vector<std::uint32_t> threads = {1, 2, 4};
  std::vector<std::uint32_t> chunks = {1, 7, 32};
  std::uint32_t tokens = 64;  // length of the prompt, at least 1
  std::uint32_t steps = 64;   // greedy decode steps after the prompt
  /// Compiler, flags and cache of compiled models for all targets. The model, target, level,
  /// accelerator, formats, context, chunk and threads in it are ignored.
  exec::NativeOptions native;
  std::map<std::string, std::string> emulators;  // command by target, as for find_emulator()
};

/// The first logit that differs from the reference.
struct LogitDifference {
  std::uint32_t chunk = 0;     // tokens per chunk of the prompt
  std::uint32_t position = 0;  // position of the token after which the logit was computed
  std::uint32_t logit = 0;
  float expected = 0, actual = 0;
};

/// Compares the logits of one run with those of the first run, position by position. The first run
/// stores its logits.
class LogitComparison {
 public:
  /// If `expected` is empty, this is the first run, and add() fills it. `expected` must outlive
  /// this object.
  LogitComparison(std::uint32_t chunk, std::vector<float>& expected)
      : chunk_(chunk), expected_(expected), first_(expected.empty()) {}

  /// Adds the logits of the next position. Every call must pass the same number of logits.
  void add(std::span<const float> logits);

  std::string hash() const { return hash_.text(); }
  std::uint64_t nan_logits() const { return nan_; }
  const std::optional<LogitDifference>& difference() const { return difference_; }

 private:
  const std::uint32_t chunk_;
  std::vector<float>& expected_;
  const bool first_;
  std::size_t position_ = 0;
  LogitHash hash_;
  std::uint64_t nan_ = 0;
  std::optional<LogitDifference> difference_;
};

/// The result for all chunk sizes with one number of threads on one target.
struct IdentityCell {
  std::string target;
  std::uint32_t opt_level = 3;
  std::string device;      // the accelerator; empty: none
  std::uint64_t jobs = 0;  // number of jobs that the accelerator computed
  std::uint32_t threads = 1;
  /// Hash of the logits for the first chunk size that differs from the reference. If none differs,
  /// all chunk sizes have this hash.
  std::string hash;
  /// Number of NaN logits in the run that gave `hash`. All NaN compare equal (docs/numerics.md).
  std::uint64_t nan_logits = 0;
  std::optional<LogitDifference> difference;
};

struct IdentityRow {
  std::filesystem::path model;
  passes::QuantScheme format = passes::kQ4Mixed;
  KvFormats kv = {};
  std::vector<IdentityCell> cells;  // by target, then level, device and number of threads
};

struct IdentityReport {
  std::vector<IdentityRow> rows;
  std::size_t differences() const;  // number of cells with a difference
};

/// Compiles and runs all combinations. A hash covers the logits after every token of the prompt and
/// after every step; steps end at the first NaN. Differences are results, not errors. Calls
/// `row_done` with each completed row. Progress counts cells. Fails like load_native(); the error
/// names the model. Fails with kUsage if `tokens` + `steps` exceeds the maximum context.
Result<IdentityReport> measure_identity(
    const IdentityOptions& options, const driver::Progress& progress = {},
    const std::function<void(const IdentityRow&)>& row_done = {});

}  // namespace llmc::evaluate
