#include "compiler/driver/verify.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/golden.h"
#include "compiler/driver/logits.h"
#include "compiler/driver/reference_run.h"
#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

constexpr std::size_t kDefaultPrompt = 24;
constexpr std::uint32_t kDefaultSteps = 8;

/// Mean divergence a format may show before it counts as a fault of the code, in nats. Bounds well
/// above what random and trained small models measure and far below what any wrong kernel gives.
double kl_limit(ir::WeightFormat format, KvFormats kv) {
  if (format == ir::WeightFormat::kF32 && kv != KvFormats{}) format = ir::WeightFormat::kF16;
  switch (format) {
    case ir::WeightFormat::kF32:
      return 1e-8;
    case ir::WeightFormat::kF16:
    case ir::WeightFormat::kBF16:
      return 1e-4;
    case ir::WeightFormat::kQ8:
      return 2e-2;
    case ir::WeightFormat::kQ6:
      return 5e-2;
    default:
      return 0.5;
  }
}

/// What the order of float operations may change of a logit, of the largest one's magnitude. Only
/// unrounded weights and caches leave nothing else to differ.
double relative_limit(ir::WeightFormat format, KvFormats kv) {
  return format == ir::WeightFormat::kF32 && kv == KvFormats{} ? 1e-4 : 0;
}

void compare(std::span<const float> native, std::span<const float> reference, VerifyPoint& point) {
  for (std::size_t i = 0; i < native.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(native[i]) - reference[i]);
    // NaN on either side must not look like agreement.
    if (!(difference <= point.max_difference)) point.max_difference = difference;
    point.largest_logit =
        std::max(point.largest_logit, std::fabs(static_cast<double>(reference[i])));
  }
  point.kl = kl_divergence(reference, log_sum_exp(reference), native, log_sum_exp(native));
  point.reference_token = likeliest(reference);
}

/// Two thirds of the prompt at once, the rest on the cache, then one token at a time.
struct Piece {
  const char* phase;
  std::vector<std::int32_t> tokens;
};
std::vector<Piece> pieces_of(const std::vector<std::int32_t>& prompt) {
  const std::size_t first = prompt.size() < 3 ? prompt.size() : prompt.size() * 2 / 3;
  const auto middle = prompt.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<Piece> pieces{{"prefill", {prompt.begin(), middle}}};
  if (middle != prompt.end()) pieces.push_back({"chunk", {middle, prompt.end()}});
  return pieces;
}

Status run_points(const VerifyOptions& options, const std::vector<std::int32_t>& prompt,
                  NativeModel::Session& session, ReferenceRun* reference, VerifyReport& report,
                  LogitHash& hash, const Progress& progress) {
  std::vector<Piece> pieces = pieces_of(prompt);
  const std::size_t total = pieces.size() + options.steps;
  for (std::size_t i = 0; i < total; ++i) {
    driver::report(progress, "verify", i, total);
    if (i >= pieces.size()) pieces.push_back({"step", {report.points.back().native_token}});
    const Piece& piece = pieces[i];
    LLMC_RETURN_IF_ERROR(session.prefill(piece.tokens));
    LLMC_TRY(const std::span<const float> logits, session.logits());
    hash.add(logits);
    VerifyPoint point;
    point.phase = piece.phase;
    point.position = session.position();
    point.native_token = likeliest(logits);
    point.reference_token = -1;
    if (reference) {
      LLMC_TRY(const std::vector<float> expected, reference->run(piece.tokens));
      compare(logits, expected, point);
    }
    report.points.push_back(std::move(point));
  }
  driver::report(progress, "verify", total, total);
  return ok_status();
}

void summarise(VerifyReport& report, const CompileOptions& compile) {
  std::size_t agree = 0;
  for (const VerifyPoint& p : report.points) {
    if (!(p.max_difference <= report.max_difference)) report.max_difference = p.max_difference;
    // All logits zero: any difference at all is too large.
    const double relative = p.max_difference == 0 ? 0 : p.max_difference / p.largest_logit;
    if (!(relative <= report.relative_difference)) report.relative_difference = relative;
    if (!(p.kl <= report.max_kl)) report.max_kl = p.kl;
    report.mean_kl += p.kl / static_cast<double>(report.points.size());
    agree += p.native_token == p.reference_token;
  }
  report.greedy_agreement = static_cast<double>(agree) / static_cast<double>(report.points.size());
  report.max_kl_allowed = kl_limit(compile.quant, compile.kv);
  report.relative_difference_allowed = relative_limit(compile.quant, compile.kv);
  report.reference_ok = report.mean_kl <= report.max_kl_allowed &&
                        std::isfinite(report.max_difference) &&
                        (report.relative_difference_allowed == 0 ||
                         report.relative_difference <= report.relative_difference_allowed);
}

Status check_golden(const VerifyOptions& options, VerifyReport& report) {
  const std::filesystem::path model = options.native.compile.model;
  report.golden_file = options.golden.empty() ? default_golden_file(model) : options.golden;
  std::error_code unknown;
  if (!options.golden.empty() && !options.update &&
      !std::filesystem::exists(options.golden, unknown)) {
    Diagnostic d = system_error(options.golden, "open", ENOENT);
    d.hint = "--golden names a file that --update wrote";
    return d;
  }
  LLMC_TRY(auto hashes, read_golden(report.golden_file));
  const auto stored = hashes.find(report.golden_key);
  if (stored != hashes.end()) report.golden_hash = stored->second;
  if (options.update) {
    hashes[report.golden_key] = report.hash;
    LLMC_RETURN_IF_ERROR(write_golden(report.golden_file, hashes));
    report.golden_updated = true;
  } else {
    report.golden_ok = !report.golden_hash || *report.golden_hash == report.hash;
  }
  return ok_status();
}

}  // namespace

Result<VerifyReport> verify_model(const VerifyOptions& options, const Progress& progress) {
  const CompileOptions& compile = options.native.compile;
  if (options.reference && bundle_name(compile.model)) {
    return failure(ErrorKind::kUsage, "a compiled bundle holds no original graph to compare with",
                   "give the model it was made from");
  }
  LLMC_TRY(const auto native, load_native(options.native, progress));
  const ModelFacts& model = native->model();
  std::vector<std::int32_t> prompt = options.prompt;
  if (prompt.empty()) prompt = fixed_prompt(model.vocab, kDefaultPrompt);
  for (const std::int32_t id : prompt) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < model.vocab) continue;
    return failure(ErrorKind::kUsage,
                   fmt::format("token id {} is not below the vocabulary of {}", id, model.vocab));
  }
  if (prompt.size() + options.steps > model.ctx) {
    return failure(ErrorKind::kUsage,
                   fmt::format("{} prompt tokens and {} steps do not fit the context of {}",
                               prompt.size(), options.steps, model.ctx),
                   "use a larger --ctx");
  }
  LLMC_TRY(const auto session, native->start(options.threads));

  std::optional<ReferenceRun> reference;
  if (options.reference) {
    report(progress, "reference", 0, 0);
    LLMC_TRY(const importer::ImportedModel imported,
             importer::import_model(compile.model, compile.import));
    LLMC_TRY(ReferenceRun run, ReferenceRun::create(imported.graph, model.vocab));
    reference.emplace(std::move(run));
  }
  VerifyReport report;
  LogitHash hash;
  LLMC_RETURN_IF_ERROR(run_points(options, prompt, *session, reference ? &*reference : nullptr,
                                  report, hash, progress));
  if (reference) summarise(report, compile);
  report.hash = hash.text();
  report.golden_key = format_name(compile.quant);
  if (compile.kv != KvFormats{}) report.golden_key += ",kv=" + plan::to_string(compile.kv);
  if (!options.prompt.empty() || options.steps != kDefaultSteps) {
    report.golden_key +=
        fmt::format("/{:016x}/{}", XXH64(prompt.data(), prompt.size() * sizeof(std::int32_t), 0),
                    options.steps);
  }
  LLMC_RETURN_IF_ERROR(check_golden(options, report));
  return report;
}

}  // namespace llmc::driver
