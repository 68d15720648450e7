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

/// Whether the logits are the same bits on every target, for every number of threads and however a
/// prompt is cut into chunks.
namespace llmc::evaluate {

struct IdentityOptions {
  std::vector<std::filesystem::path> models;
  std::vector<ir::WeightFormat> formats = {ir::WeightFormat::kQ4};
  std::vector<KvFormats> caches;                // none: what is usual beside each format
  std::vector<std::string> targets;             // the first is what all else is compared with
  std::vector<std::uint32_t> opt_levels = {3};  // of each target
  std::vector<std::uint32_t> threads = {1, 2, 4};
  std::vector<std::uint32_t> chunks = {1, 7, 32};
  std::uint32_t tokens = 64;  // of the prompt, at least 1
  std::uint32_t steps = 64;   // greedy steps after it
  /// For every target: compiler, flags and cache. Model, target, level, formats, context, chunk and
  /// threads are set here.
  exec::NativeOptions native;
  std::map<std::string, std::string> emulators;  // target -> command; as for find_emulator
};

/// The first logit that is another one.
struct LogitDifference {
  std::uint32_t chunk = 0;     // the prompt was cut into
  std::uint32_t position = 0;  // of the token the logits follow
  std::uint32_t logit = 0;
  float expected = 0, actual = 0;
};

/// The logits of one run, a position at a time, against those of the first run.
class LogitComparison {
 public:
  /// An empty `expected` is filled; it must outlive this object.
  LogitComparison(std::uint32_t chunk, std::vector<float>& expected)
      : chunk_(chunk), expected_(expected), first_(expected.empty()) {}

  /// Logits of the next position; as many each time.
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

/// All chunkings with one number of threads on one target.
struct IdentityCell {
  std::string target;
  std::uint32_t opt_level = 3;
  std::uint32_t threads = 1;
  std::string hash;              // of the first chunking whose logits are others, else of all
  std::uint64_t nan_logits = 0;  // of one chunking; all NaN count as equal (docs/numerics.md)
  std::optional<LogitDifference> difference;
};

struct IdentityRow {
  std::filesystem::path model;
  ir::WeightFormat format = ir::WeightFormat::kQ4;
  KvFormats kv = {};
  std::vector<IdentityCell> cells;  // targets in order, for each its levels, for each its threads
};

struct IdentityReport {
  std::vector<IdentityRow> rows;
  std::size_t differences() const;  // cells with one
};

/// Compiles and runs everything. The hash is over the logits after every token of the prompt and
/// every step. Differences are results, not errors. `row_done` is told each row when it is
/// complete. Errors as load_native, with the model's path; kUsage when prompt and steps do not fit
/// a model. Progress counts cells.
Result<IdentityReport> measure_identity(
    const IdentityOptions& options, const driver::Progress& progress = {},
    const std::function<void(const IdentityRow&)>& row_done = {});

}  // namespace llmc::evaluate
