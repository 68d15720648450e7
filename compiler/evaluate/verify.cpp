#include "compiler/evaluate/verify.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/golden.h"
#include "compiler/driver/source.h"
#include "compiler/evaluate/logits.h"
#include "compiler/evaluate/reference_run.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/counted.h"
#include "compiler/support/file.h"

namespace llmc::evaluate {
namespace {

constexpr std::size_t kShortPrompt = 24;
constexpr std::uint32_t kShortSteps = 8;
/// Prompt tokens of the long run: several KV blocks of the default 32 tokens. The first two thirds,
/// which are prefilled in one call, are more than the default chunk of any target.
constexpr std::size_t kLongPrompt = 200;
constexpr std::uint32_t kLongSteps = 4;
/// Chunk size of the long run's second pass; not a multiple of a KV block.
constexpr std::uint32_t kOtherChunk = 48;
/// Maximum multiply-adds per token of models for which the interpreter runs the long prompt. For
/// larger models it would take minutes.
constexpr std::uint64_t kMaxReferenceMacs = 250'000'000;

/// Returns the maximum mean KL divergence, in nats. With a cache that is not f32, f32 weights have
/// the limit of f16 weights.
double kl_limit(ir::WeightFormat format, KvFormats kv) {
  if (format == ir::WeightFormat::kF32 && kv != KvFormats{}) format = ir::WeightFormat::kF16;
  return plan::weight_format_info(format).max_kl;
}

/// Returns the maximum difference of a logit that is due to the order of float operations, relative
/// to the largest magnitude. Applies if neither weights nor cache are rounded.
double relative_limit(ir::WeightFormat format, KvFormats kv) {
  return format == ir::WeightFormat::kF32 && kv == KvFormats{} ? 1e-4 : 0;
}

void compare(std::span<const float> native, std::span<const float> reference, VerifyPoint& point) {
  for (std::size_t i = 0; i < native.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(native[i]) - reference[i]);
    // A NaN on either side counts as a difference.
    if (!(difference <= point.max_difference)) point.max_difference = difference;
    point.largest_logit =
        std::max(point.largest_logit, std::fabs(static_cast<double>(reference[i])));
  }
  point.kl = kl_divergence(reference, log_sum_exp(reference), native, log_sum_exp(native));
  point.reference_token = likeliest(reference);
}

/// Tokens of one call. A run consists of one call for two thirds of the prompt, one call for the
/// rest, and one call per step.
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

/// Runs `prompt` and `steps` greedy decode steps. Appends a point after each piece unless `points`
/// is nullptr.
Status run_points(const std::vector<std::int32_t>& prompt, std::uint32_t steps,
                  exec::Session& session, ReferenceRun* reference, std::vector<VerifyPoint>* points,
                  LogitHash& hash, const driver::Progress& progress) {
  std::vector<Piece> pieces = pieces_of(prompt);
  const std::size_t total = pieces.size() + steps;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < total; ++i) {
    driver::report(progress, "verify", i, total);
    if (i >= pieces.size()) pieces.push_back({"step", {last}});
    const Piece& piece = pieces[i];
    LLMC_RETURN_IF_ERROR(session.prefill(piece.tokens));
    LLMC_TRY(const std::span<const float> logits, session.logits());
    hash.add(logits);
    last = likeliest(logits);
    if (points == nullptr) continue;
    VerifyPoint point;
    point.phase = piece.phase;
    point.position = session.position();
    point.native_token = last;
    point.reference_token = -1;
    if (reference) {
      LLMC_TRY(const std::vector<float> expected, reference->run(piece.tokens));
      compare(logits, expected, point);
    }
    points->push_back(std::move(point));
  }
  driver::report(progress, "verify", total, total);
  return ok_status();
}

/// Computes the statistics of the report. `done`: the coarsest format of the weights, which
/// determines the limits. It may differ from the requested format, because weights may keep their
/// codes.
void summarise(VerifyReport& report, ir::WeightFormat done, KvFormats kv) {
  std::size_t agree = 0, count = 0;
  for (const VerifyRun& run : report.runs) {
    if (!run.reference) continue;
    for (const VerifyPoint& p : run.points) {
      if (!(p.max_difference <= report.max_difference)) report.max_difference = p.max_difference;
      // If all reference logits are zero, any difference is infinite, that is, not allowed.
      const double relative = p.max_difference == 0 ? 0 : p.max_difference / p.largest_logit;
      if (!(relative <= report.relative_difference)) report.relative_difference = relative;
      if (!(p.kl <= report.max_kl)) report.max_kl = p.kl;
      report.mean_kl += p.kl;
      agree += p.native_token == p.reference_token;
      ++count;
    }
  }
  if (count == 0) return;
  report.mean_kl /= static_cast<double>(count);
  report.greedy_agreement = static_cast<double>(agree) / static_cast<double>(count);
  report.max_kl_allowed = kl_limit(done, kv);
  report.relative_difference_allowed = relative_limit(done, kv);
  report.reference_ok = report.mean_kl <= report.max_kl_allowed &&
                        std::isfinite(report.max_difference) &&
                        (report.relative_difference_allowed == 0 ||
                         report.relative_difference <= report.relative_difference_allowed);
}

/// Returns the file with the golden hashes; empty if the bundle contains them.
std::filesystem::path golden_file(const VerifyOptions& options) {
  if (!options.golden.empty()) return options.golden;
  const std::filesystem::path& model = options.native.compile.model;
  if (!driver::bundle_name(model)) return driver::default_golden_file(model);
  if (options.reference_model.empty()) return {};
  std::filesystem::path file = driver::default_golden_file(options.reference_model);
  std::error_code unknown;
  return options.update || std::filesystem::exists(file, unknown) ? std::move(file)
                                                                  : std::filesystem::path();
}

Status check_golden(const VerifyOptions& options, const driver::BundleFacts& facts,
                    VerifyReport& report) {
  report.golden_file = golden_file(options);
  report.golden_required = options.require_golden && !options.update;
  driver::GoldenHashes golden{.numerics = facts.numerics, .hashes = facts.golden};
  if (report.golden_file.empty()) {
    report.golden_file = options.native.compile.model / (facts.name + ".plan.json");
  } else {
    std::error_code unknown;
    if (!options.golden.empty() && !options.update &&
        !std::filesystem::exists(options.golden, unknown)) {
      Diagnostic d = system_error(options.golden, "open", ENOENT);
      d.hint = "--golden takes a file written by --update";
      return d;
    }
    LLMC_TRY(golden, driver::read_golden(report.golden_file));
  }
  report.golden_numerics = golden.numerics;
  if (options.update && golden.numerics != report.numerics) golden.hashes.clear();
  for (VerifyRun& run : report.runs) {
    const auto stored = golden.hashes.find(run.golden_key);
    if (stored != golden.hashes.end()) run.golden_hash = stored->second;
    if (options.update) golden.hashes[run.golden_key] = run.hash;
  }
  if (!options.update) return ok_status();
  golden.numerics = report.numerics;
  LLMC_RETURN_IF_ERROR(driver::write_golden(report.golden_file, golden));
  report.golden_updated = true;
  for (VerifyRun& run : report.runs) run.golden_hash = run.hash;
  return ok_status();
}

/// Fails with kUsage if the requested prompt has invalid ids or exceeds the context.
Status check_prompt(const VerifyOptions& options, std::size_t tokens,
                    const exec::ModelFacts& model) {
  for (const std::int32_t id : options.prompt) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < model.vocab) continue;
    return failure(ErrorKind::kUsage,
                   fmt::format("token id {} is not below the vocabulary of {}", id, model.vocab));
  }
  if (tokens + options.steps > model.ctx) {
    return failure(
        ErrorKind::kUsage,
        fmt::format("{} and {} do not fit the context of {}", counted(tokens, "prompt token"),
                    counted(options.steps, "step"), model.ctx),
        "compile the model with a larger --ctx, or give fewer --ids");
  }
  return ok_status();
}

/// The native model and the graph that the interpreter runs.
class Verifier {
 public:
  Verifier(const VerifyOptions& options, const exec::NativeModel& native,
           const driver::BundleFacts& facts, const driver::Progress& progress)
      : options_(options), native_(native), facts_(facts), progress_(progress) {}

  /// Imports the reference's graph.
  Status load_reference(const std::filesystem::path& model) {
    driver::report(progress_, "reference", 0, 0);
    LLMC_TRY(importer::ImportedModel imported,
             options_.native.compile.reader.bind(model, options_.native.compile.import));
    if (!imported.is_decoder()) return driver::not_a_decoder(imported);
    if (!options_.reference_model.empty()) LLMC_RETURN_IF_ERROR(check_same_model(imported));
    reference_ = std::move(imported.module);
    return ok_status();
  }

  Status run(VerifyRun& run, const std::vector<std::int32_t>& prompt) {
    const exec::ModelFacts& model = native_.model();
    run.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    run.kv_blocks = (run.prompt_tokens + run.steps + model.kv_block - 1) / model.kv_block;
    run.chunk = model.chunk;
    for (const Piece& piece : pieces_of(prompt))
      run.chunks +=
          (static_cast<std::uint32_t>(piece.tokens.size()) + model.chunk - 1) / model.chunk;
    std::optional<ReferenceRun> reference;
    if (run.reference) {
      LLMC_TRY(ReferenceRun made, ReferenceRun::create(*reference_, model.vocab));
      reference.emplace(std::move(made));
    }
    LLMC_TRY(run.hash, hash_of(run, prompt, 0, reference ? &*reference : nullptr, &run.points));
    if (run.other_chunk != 0) {
      LLMC_TRY(run.other_hash, hash_of(run, prompt, run.other_chunk, nullptr, nullptr));
    }
    return ok_status();
  }

  /// Compares the rows of the media encoder; nullopt without a reference or a media encoder.
  Result<std::optional<VerifyImage>> image() const {
    const ir::Graph* const graph = reference_ ? reference_->media_encoder() : nullptr;
    if (graph == nullptr || facts_.image_inputs.empty()) return std::optional<VerifyImage>();
    driver::report(progress_, "image", 0, 0);
    LLMC_TRY(const auto session, native_.start(options_.threads));
    LLMC_TRY(VerifyImage made, verify_image(*graph, facts_, *session));
    return std::optional(std::move(made));
  }

  bool has_reference() const { return reference_.has_value(); }
  /// Returns what the accelerator computed in all runs.
  const std::optional<exec::DeviceUse>& device() const { return device_; }
  bool reference_is_slow() const {
    std::uint64_t macs = 0;
    for (const plan::Products& p : facts_.products) macs += p.macs;
    return macs > kMaxReferenceMacs;
  }

 private:
  /// Fails with kBadInput if the reference has other numbers of layers or logits than the native
  /// model.
  Status check_same_model(const importer::ImportedModel& reference) const {
    const std::int64_t vocabulary = reference.module.vocabulary();
    const auto layers = std::ranges::count(reference.module.states, ir::StateKind::kAttentionCache,
                                           &ir::State::kind);
    const exec::ModelFacts& native = native_.model();
    std::string difference;
    if (vocabulary != native.vocab)
      difference = fmt::format("a vocabulary of {} instead of {}", vocabulary, native.vocab);
    else if (layers != native.layers)
      difference = fmt::format("{} instead of {}", counted(layers, "layer"), native.layers);
    if (difference.empty()) return ok_status();
    return file_failure(ErrorKind::kBadInput, reference.path.string(),
                        "the bundle was not compiled from this model, which has " + difference,
                        "give the original model by --model");
  }

  /// Returns the hash of a run in chunks of `chunk` tokens; 0: the model's default.
  Result<std::string> hash_of(const VerifyRun& run, const std::vector<std::int32_t>& prompt,
                              std::uint32_t chunk, ReferenceRun* reference,
                              std::vector<VerifyPoint>* points) {
    // Begin without the compiled-in prompt, because hashes do not depend on it.
    LLMC_TRY(const auto session,
             native_.start(exec::SessionOptions{
                 .threads = options_.threads, .chunk = chunk, .begin = LLMC_BEGIN_EMPTY}));
    if (native_.model().source_max > 0) {
      const exec::EncoderInput source = fixed_source(native_.model());
      LLMC_RETURN_IF_ERROR(session->encode(source));
      if (reference) LLMC_RETURN_IF_ERROR(reference->encode(source));
    }
    LogitHash hash;
    LLMC_RETURN_IF_ERROR(
        run_points(prompt, run.steps, *session, reference, points, hash, progress_));
    if (const auto used = session->device_use()) {
      if (!device_) device_ = exec::DeviceUse{.name = used->name};
      device_->jobs += used->jobs;
      device_->copied_bytes += used->copied_bytes;
    }
    return hash.text();
  }

  const VerifyOptions& options_;
  const exec::NativeModel& native_;
  const driver::BundleFacts& facts_;
  const driver::Progress& progress_;
  std::optional<ir::Module> reference_;
  std::optional<exec::DeviceUse> device_;
};

/// Returns the prompt length of the long run, limited to the context; 0 if the run would not be
/// longer than the short one.
std::size_t long_prompt(const exec::ModelFacts& model) {
  const std::size_t room = model.ctx > kLongSteps ? model.ctx - kLongSteps : 0;
  const std::size_t tokens = std::min(kLongPrompt, room);
  return tokens > kShortPrompt + kShortSteps ? tokens : 0;
}

Status check_options(const VerifyOptions& options) {
  const bool bundle = driver::bundle_name(options.native.compile.model).has_value();
  if (!bundle && !options.reference_model.empty())
    return usage_error("--model is for bundles: a model is compared with its own graph",
                       "remove --model");
  if (driver::looks_like_bundle(options.reference_model))
    return usage_error(
        fmt::format("--model {} is a compiled bundle", printable(options.reference_model.string())),
        "give the model that was compiled: its graph is the reference");
  if (bundle && options.update && golden_file(options).empty())
    return usage_error("--update does not change a bundle", "give a file by --golden FILE");
  return ok_status();
}

}  // namespace

bool VerifyReport::chunks_ok() const {
  return std::ranges::all_of(runs, [](const VerifyRun& run) { return run.chunks_ok(); });
}

bool VerifyReport::golden_ok() const {
  return std::ranges::none_of(runs, [&](const VerifyRun& run) {
    return run.golden_differs() || (golden_required && !run.golden_hash);
  });
}

Result<VerifyReport> verify_model(const VerifyOptions& options, const driver::Progress& progress) {
  LLMC_RETURN_IF_ERROR(check_options(options));
  const driver::CompileOptions& compile = options.native.compile;
  const bool bundle = driver::bundle_name(compile.model).has_value();
  LLMC_TRY(const auto native, exec::load_native(options.native, progress));
  LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(native->bundle()));
  if (facts.quant.empty())
    return file_failure(ErrorKind::kBadInput, compile.model.string(),
                        "the bundle was compiled by an older llmc and does not record the weight "
                        "format, which identifies the stored hash",
                        "compile the model again");
  const exec::ModelFacts& model = native->model();
  const bool fixed = options.prompt.empty();
  const std::vector<std::int32_t> prompt =
      fixed ? fixed_prompt(model.vocab, kShortPrompt) : options.prompt;
  LLMC_RETURN_IF_ERROR(check_prompt(options, prompt.size(), model));

  Verifier verifier(options, *native, facts, progress);
  const std::filesystem::path& original = bundle ? options.reference_model : compile.model;
  if (options.reference && !original.empty())
    LLMC_RETURN_IF_ERROR(verifier.load_reference(original));
  VerifyReport report;
  report.numerics = facts.numerics;
  report.rounding = facts.rounding;
  const std::string key =
      driver::golden_key(facts.quant, facts.kv, facts.calibration, facts.requantize);
  const bool standard = fixed && options.steps == kShortSteps;
  VerifyRun& first = report.runs.emplace_back();
  first.name = fixed ? "short" : "given";
  first.steps = options.steps;
  first.reference = verifier.has_reference();
  first.golden_key = key;
  if (!standard)
    first.golden_key +=
        fmt::format("/{:016x}/{}", XXH64(prompt.data(), prompt.size() * sizeof(std::int32_t), 0),
                    options.steps);
  LLMC_RETURN_IF_ERROR(verifier.run(first, prompt));

  const bool two_runs = standard && options.long_run;
  const std::size_t tokens = two_runs ? long_prompt(model) : 0;
  if (tokens > 0) {
    VerifyRun& second = report.runs.emplace_back();
    second.name = "long";
    second.steps = kLongSteps;
    second.reference = verifier.has_reference() && !verifier.reference_is_slow();
    if (verifier.has_reference() && !second.reference)
      report.not_run =
          "the reference ran the short prompt only: the model is too large for the long one";
    second.golden_key = fmt::format("{}/{}+{}", key, tokens, kLongSteps);
    second.other_chunk = model.chunk > kOtherChunk ? kOtherChunk : model.chunk / 2;
    LLMC_RETURN_IF_ERROR(verifier.run(second, fixed_prompt(model.vocab, tokens)));
  } else if (two_runs) {
    report.not_run =
        fmt::format("no long prompt: the context has only {}", counted(model.ctx, "token"));
  }
  report.device = verifier.device();
  LLMC_TRY(report.image, verifier.image());
  summarise(report, facts.rounding.coarsest(), facts.kv);
  LLMC_RETURN_IF_ERROR(check_golden(options, facts, report));
  return report;
}

}  // namespace llmc::evaluate
