#include "compiler/evaluate/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/plan/kv_format.h"

namespace llmc::evaluate {
namespace {

/// The logits of the first run, position by position.
using Expected = std::vector<float>;

/// Runs the prompt in chunks of `chunk` tokens and reads the logits after each token, then runs
/// greedy steps.
Status run(const IdentityOptions& options, std::uint32_t chunk, std::uint32_t vocabulary,
           exec::Session& session, LogitComparison& comparison) {
  const std::vector<std::int32_t> prompt = fixed_prompt(vocabulary, options.tokens);
  for (std::size_t at = 0; at < prompt.size(); at += chunk) {
    const std::size_t count = std::min<std::size_t>(chunk, prompt.size() - at);
    LLMC_RETURN_IF_ERROR(session.prefill(std::span(prompt).subspan(at, count)));
    for (std::uint32_t row = 0; row < count; ++row) {
      LLMC_TRY(const std::span<const float> logits, session.logits_at(row));
      LLMC_CHECK(logits.size() == vocabulary);
      comparison.add(logits);
    }
  }
  // Stop at NaN logits, for which no greedy token is defined.
  for (std::uint32_t i = 0; i < options.steps && comparison.nan_logits() == 0; ++i) {
    LLMC_TRY([[maybe_unused]] const std::int32_t token, session.step());
    LLMC_TRY(const std::span<const float> logits, session.logits());
    LLMC_CHECK(logits.size() == vocabulary);
    comparison.add(logits);
  }
  return ok_status();
}

exec::NativeOptions native_options(const IdentityOptions& options, const IdentityRow& row,
                                   const std::string& target, std::uint32_t opt_level,
                                   const std::string& device) {
  exec::NativeOptions native = options.native;
  native.compile.model = row.model;
  native.compile.target = target;
  native.compile.opt_level = opt_level;
  native.compile.accelerate = device;
  native.compile.quant = row.format;
  native.compile.kv = row.kv;
  native.compile.ctx = options.tokens + options.steps;
  native.compile.ctx_given = true;
  native.compile.chunk = std::ranges::max(options.chunks);
  native.compile.threads_max = std::ranges::max(options.threads);
  if (const auto found = options.emulators.find(target); found != options.emulators.end())
    native.emulator = found->second;
  return native;
}

Result<IdentityCell> measure_cell(const IdentityOptions& options, const exec::NativeModel& native,
                                  std::uint32_t threads, Expected& expected) {
  IdentityCell cell;
  cell.threads = threads;
  for (const std::uint32_t chunk : options.chunks) {
    LLMC_TRY(const auto session, native.start({.threads = threads, .chunk = chunk}));
    if (native.model().source_max > 0)
      LLMC_RETURN_IF_ERROR(session->encode(fixed_source(native.model())));
    LogitComparison comparison(chunk, expected);
    LLMC_RETURN_IF_ERROR(run(options, chunk, native.model().vocab, *session, comparison));
    if (const auto used = session->device_use()) cell.jobs += used->jobs;
    cell.hash = comparison.hash();
    cell.nan_logits = comparison.nan_logits();
    cell.difference = comparison.difference();
    if (cell.difference) break;
  }
  return cell;
}

Status measure_row(const IdentityOptions& options, IdentityRow& row,
                   const std::function<void()>& next_cell) {
  Expected expected;
  for (const std::string& target : options.targets) {
    for (const std::uint32_t level : options.opt_levels) {
      for (const std::string& device : options.devices) {
        LLMC_TRY(const auto native,
                 exec::load_native(native_options(options, row, target, level, device)));
        for (const std::uint32_t threads : options.threads) {
          next_cell();
          LLMC_TRY(IdentityCell cell, measure_cell(options, *native, threads, expected));
          cell.target = target;
          cell.opt_level = level;
          cell.device = device;
          row.cells.push_back(std::move(cell));
        }
      }
    }
  }
  return ok_status();
}

}  // namespace

void LogitComparison::add(std::span<const float> logits) {
  hash_.add(logits);
  nan_ += static_cast<std::uint64_t>(
      std::ranges::count_if(logits, [](float x) { return std::isnan(x); }));
  const std::size_t position = position_++;
  if (first_) {
    expected_.insert(expected_.end(), logits.begin(), logits.end());
    return;
  }
  // Report only the first difference, because it makes later positions differ too.
  if (difference_) return;
  const std::size_t begin = position * logits.size();
  LLMC_CHECK(begin + logits.size() <= expected_.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float expected = expected_[begin + i];
    if (logit_bits(expected) == logit_bits(logits[i])) continue;
    difference_ = LogitDifference{chunk_, static_cast<std::uint32_t>(position),
                                  static_cast<std::uint32_t>(i), expected, logits[i]};
    return;
  }
}

std::size_t IdentityReport::differences() const {
  std::size_t count = 0;
  for (const IdentityRow& row : rows)
    for (const IdentityCell& cell : row.cells) count += cell.difference ? 1 : 0;
  return count;
}

Result<IdentityReport> measure_identity(const IdentityOptions& options,
                                        const driver::Progress& progress,
                                        const std::function<void(const IdentityRow&)>& row_done) {
  LLMC_CHECK(!options.targets.empty() && !options.opt_levels.empty() && !options.threads.empty() &&
             !options.chunks.empty() && options.tokens > 0);
  IdentityReport report;
  std::uint64_t done = 0;  // completed cells; compilation counts as part of a cell
  const std::uint64_t total = options.models.size() * options.formats.size() *
                              std::max<std::size_t>(1, options.caches.size()) *
                              options.targets.size() * options.opt_levels.size() *
                              options.devices.size() * options.threads.size();
  const auto next_cell = [&] { driver::report(progress, "identity", done++, total); };
  driver::report(progress, "identity", 0, total);
  for (const std::filesystem::path& model : options.models) {
    for (const passes::QuantScheme format : options.formats) {
      std::vector<KvFormats> caches = options.caches;
      if (caches.empty()) caches.push_back(plan::default_kv_formats(format.format));
      for (const KvFormats kv : caches) {
        report.rows.push_back({model, format, kv, {}});
        auto status = measure_row(options, report.rows.back(), next_cell);
        if (!status.ok()) return std::move(status).error().in_file(model.string());
        if (row_done) row_done(report.rows.back());
      }
    }
  }
  driver::report(progress, "identity", total, total);
  return report;
}

}  // namespace llmc::evaluate
