#include "compiler/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "compiler/exec/made_up_image.h"
#include "compiler/support/check.h"
#include "compiler/support/counted.h"
#include "compiler/support/statistics.h"

namespace llmc::bench {
namespace {

struct Test {
  BenchResult::Test kind;
  std::uint32_t tokens, depth, sequences;
  std::uint32_t compiled_in;  // tokens of the compiled-in prompt
  bool uncached = false;

  bool is_image() const {
    return kind == BenchResult::Test::kEncodeImage || kind == BenchResult::Test::kEncodeAudio;
  }
  bool is_encode() const { return kind == BenchResult::Test::kEncode || is_image(); }
  bool is_prompt() const { return kind == BenchResult::Test::kPrompt; }
  bool is_generation() const { return kind == BenchResult::Test::kGeneration; }
  /// Returns the number of tokens that stay in the cache between repetitions. In a generation test,
  /// each repetition runs the last of the `depth` tokens again, or one token if `depth` is 0.
  std::uint32_t kept() const {
    return compiled_in + (!is_generation() || depth == 0 ? depth : depth - 1);
  }
  std::uint64_t all() const { return std::uint64_t{kept()} + tokens + (is_generation() ? 1 : 0); }

  friend bool operator==(const Test&, const Test&) = default;
};

std::vector<std::int32_t> tokens_for(std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * 7919ull + 1) % vocabulary));
  }
  return tokens;
}

exec::EncoderInput made_up_source(std::uint32_t size, const exec::ModelFacts& model) {
  if (model.source_width == 0) return {.ids = tokens_for(size, model.source_vocab), .features = {}};
  return {.ids = {}, .features = exec::random_features(std::size_t{size} * model.source_width)};
}

/// Returns the sizes of the sources to encode; empty for a decoder.
Result<std::vector<std::uint32_t>> sources_of(const BenchOptions& options,
                                              const exec::ModelFacts& model) {
  // 128 tokens, or ten seconds of sound at 16 kHz; a spectrogram or an image is encoded whole.
  const std::uint32_t usual = model.source_width == 0   ? 128
                              : model.source_width == 1 ? 160000
                                                        : model.source_max;
  if (model.source_max == 0) {
    if (options.sources.empty()) return options.sources;
    return usage_error("--n-source needs an encoder-decoder", "leave it out");
  }
  if (options.sources.empty()) return std::vector{std::min(usual, model.source_max)};
  for (const std::uint32_t size : options.sources)
    LLMC_RETURN_IF_ERROR(exec::check_source(model, made_up_source(size, model)));
  return options.sources;
}

/// Returns the requested tests without duplicates. Fails with kUsage if one exceeds the limits.
Result<std::vector<Test>> tests_of(const BenchOptions& options,
                                   const std::vector<std::uint32_t>& sources,
                                   const exec::ModelFacts& model, bool sound) {
  const std::uint32_t context = model.ctx, room = context - model.prompt_tokens;
  const auto prompts = options.prompts.value_or(std::vector{std::min(128u, room)});
  const auto generations = options.generations.value_or(std::vector{std::min(64u, room - 1)});
  std::vector<Test> tests;
  const auto add = [&](const Test& test) {
    if (test.tokens != 0 && std::ranges::count(tests, test) == 0) tests.push_back(test);
  };
  for (const std::uint32_t depth : options.depths) {
    for (const std::uint32_t tokens : prompts)
      add({BenchResult::Test::kPrompt, tokens, depth, 1, model.prompt_tokens});
    for (const std::uint32_t tokens : generations)
      for (const std::uint32_t n : options.parallel)
        for (const bool uncached : {false, true})
          if (!uncached || options.uncached)
            add({BenchResult::Test::kGeneration, tokens, depth, n, model.prompt_tokens, uncached});
  }
  for (const std::uint32_t tokens : sources) add({BenchResult::Test::kEncode, tokens, 0, 1, 0});
  add({sound ? BenchResult::Test::kEncodeAudio : BenchResult::Test::kEncodeImage, model.image_rows,
       0, 1, 0});
  if (tests.empty())
    return usage_error("nothing to measure: neither prompt nor generation",
                       "give the number of prompt tokens by -p or of generated tokens by -n");
  for (const Test& test : tests) {
    const std::uint32_t most = std::min(model.sequences, model.batch);
    if (test.sequences > most) {
      return usage_error(fmt::format("{} sequences requested, but the model was compiled for {}",
                                     test.sequences, most),
                         fmt::format("compile with --sequences={0} --batch={0}", test.sequences));
    }
    if (test.is_encode() || test.all() <= context) continue;
    return usage_error(test.is_prompt()
                           ? fmt::format("a prompt of {} after {} does not fit the context of {}",
                                         counted(test.tokens, "token"), test.depth, context)
                           : fmt::format("{} after {} do not fit the context of {}",
                                         counted(test.tokens, "generated token"),
                                         std::max(test.depth, 1u), context),
                       "use fewer, or compile with a larger --ctx");
  }
  return tests;
}

/// Runs tests one after the other in one session.
class BenchSession {
 public:
  /// `source`: size of the source that an encoder-decoder attends to; 0 for a decoder.
  BenchSession(std::unique_ptr<exec::Session> session, const exec::ModelFacts& model,
               std::uint32_t source, exec::StageClock* clock)
      : session_(std::move(session)),
        model_(model),
        vocabulary_(model.vocab),
        source_(source),
        clock_(clock) {}

  /// Creates inputs for the media encoder, which the model must have.
  Status make_image(const driver::BundleFacts& facts) {
    LLMC_TRY(image_, exec::encode_random_media(facts, *session_));
    return ok_status();
  }

  std::uint32_t vocabulary() const { return vocabulary_; }
  std::optional<exec::DeviceUse> device_use() const { return session_->device_use(); }

  /// Fills the cache of each sequence with test.kept() tokens. Sequences share only the tokens of a
  /// compiled-in prompt, and sources if the model has fewer sources than sequences.
  Status fill(const Test& test) {
    // With several sources, sequences may share the source of the first one, which is encoded
    // again.
    LLMC_RETURN_IF_ERROR(release_after(model_.sources > 1 ? 1 : test.sequences));
    if (test.is_encode()) return ok_status();
    if (source_ > 0) LLMC_RETURN_IF_ERROR(session_->encode(made_up_source(source_, model_)));
    LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::reset));
    while (sequences_.size() < test.sequences) {
      LLMC_TRY(const std::uint32_t added, session_->get<std::uint32_t>(&exec::Api::fork, 0));
      sequences_.push_back(added);
    }
    if (model_.sources > 1) LLMC_RETURN_IF_ERROR(encode_for_others());
    return each([&]() -> Status {
      LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::reset));
      return session_->prefill(tokens_for(test.kept() - test.compiled_in, vocabulary_));
    });
  }

  struct Run {
    double seconds = 0;
    std::vector<double> steps;  // seconds per step of a generation test
    std::size_t logits = 0;     // number of logits computed in all generation steps
    PartSeconds parts{};        // set if there is a clock
  };
  /// Runs the test once, after the tokens of fill().
  Result<Run> run(const Test& test) {
    const auto input = tokens_for(test.is_generation() ? 1 : test.tokens, vocabulary_);
    const auto source = test.is_encode() && !test.is_image() ? made_up_source(test.tokens, model_)
                                                             : exec::EncoderInput();
    if (!test.is_encode())
      LLMC_RETURN_IF_ERROR(each([&]() -> Status {
        LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::rewind, test.kept()));
        return test.is_generation() ? session_->prefill(input) : ok_status();
      }));
    Run result;
    result.steps.reserve(test.is_generation() ? test.tokens : 0);
    session_->wait_for_ranks();
    if (clock_ != nullptr) clock_->start();
    const auto started = std::chrono::steady_clock::now();
    auto last = started;
    if (!test.is_generation()) {
      if (test.is_image()) {
        LLMC_TRY(image_.rows, session_->encode_image(image_.spans()));
      } else {
        LLMC_RETURN_IF_ERROR(test.is_encode() ? session_->encode(source) : prompt(input));
      }
      last = std::chrono::steady_clock::now();
    } else {
      // Greedy decode steps.
      for (std::uint32_t i = 0; i < test.tokens; ++i) {
        LLMC_RETURN_IF_ERROR(test.uncached ? run_again(test, i) : step());
        const auto now = std::chrono::steady_clock::now();
        result.steps.push_back(std::chrono::duration<double>(now - last).count());
        last = now;
        result.logits += session_->logits_computed();
      }
    }
    if (clock_ != nullptr) std::ranges::copy(clock_->stop(), result.parts.begin());
    result.seconds = std::chrono::duration<double>(last - started).count();
    return result;
  }

 private:
  /// Runs a prompt and samples the next token, because the library may compute the head only then.
  Status prompt(std::span<const std::int32_t> tokens) {
    LLMC_RETURN_IF_ERROR(session_->prefill(tokens));
    LLMC_TRY([[maybe_unused]] const std::int32_t token, session_->sample());
    return ok_status();
  }
  /// Selects each sequence, the first one last, and calls f.
  template <class F>
  Status each(const F& f) {
    for (std::size_t i = sequences_.size(); i-- > 0;) {
      LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::select, sequences_[i]));
      LLMC_RETURN_IF_ERROR(f());
    }
    return ok_status();
  }
  /// Selects the first sequence, and releases those after the first `count`.
  Status release_after(std::size_t count) {
    LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::select, 0));
    for (; sequences_.size() > count; sequences_.pop_back())
      LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::release, sequences_.back()));
    return ok_status();
  }
  /// Encodes separate sources for the other sequences, up to the model's number of sources.
  Status encode_for_others() {
    const std::size_t count = std::min<std::size_t>(sequences_.size(), model_.sources);
    for (std::size_t i = 1; i < count; ++i) {
      LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::select, sequences_[i]));
      LLMC_RETURN_IF_ERROR(session_->encode(made_up_source(source_, model_)));
    }
    return ok_status();
  }
  /// Rewinds to the compiled-in prompt and runs all later tokens again, including one new token.
  Status run_again(const Test& test, std::uint32_t generated) {
    const auto tokens = tokens_for(test.kept() - test.compiled_in + generated + 2, vocabulary_);
    return each([&]() -> Status {
      LLMC_RETURN_IF_ERROR(session_->call(&exec::Api::rewind, test.compiled_in));
      return prompt(tokens);
    });
  }
  Status step() {
    tokens_.resize(sequences_.size());
    if (sequences_.size() == 1) return session_->call(&exec::Api::step, tokens_.data());
    return session_->call(&exec::Api::step_batch, sequences_.data(), sequences_.size(),
                          tokens_.data());
  }

  std::unique_ptr<exec::Session> session_;
  std::vector<std::uint32_t> sequences_ = {0};
  std::vector<std::int32_t> tokens_;  // tokens of the last step, one per sequence
  const exec::ModelFacts& model_;
  std::uint32_t vocabulary_, source_;
  exec::StageClock* clock_;
  exec::RandomMediaInput image_;
};

void finish(BenchResult& result) {
  const auto tokens = static_cast<double>(result.all_tokens());
  const std::vector<double>& seconds = result.seconds;
  result.tokens_per_second = tokens / median(seconds);
  const auto [shortest, longest] = std::ranges::minmax(seconds);
  result.minimum = tokens / longest;
  result.maximum = tokens / shortest;
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(tokens / s);
  result.deviation = sample_deviation(rates);
}

/// Runs a test alternately in both sessions; the second may be nullptr.
Result<BenchResult> measure(const Test& test, std::uint32_t threads, std::uint32_t repetitions,
                            BenchSession& plain, BenchSession* timed,
                            const std::function<void()>& tick) {
  BenchResult result{.test = test.kind,
                     .threads = threads,
                     .tokens = test.tokens,
                     .depth = test.depth,
                     .sequences = test.sequences,
                     .uncached = test.uncached,
                     .seconds = {}};
  result.steps.first_position = test.kept() + 1;
  LLMC_RETURN_IF_ERROR(plain.fill(test));
  if (timed != nullptr) LLMC_RETURN_IF_ERROR(timed->fill(test));
  std::vector<BenchSession::Run> with_parts;
  std::size_t logits = 0, choices = 0;
  for (std::uint32_t i = 0; i <= repetitions; ++i) {
    tick();
    LLMC_TRY(const BenchSession::Run run, plain.run(test));
    if (timed != nullptr) {
      LLMC_TRY(BenchSession::Run second, timed->run(test));
      if (i > 0) with_parts.push_back(std::move(second));
    }
    if (i == 0) continue;
    result.seconds.push_back(run.seconds);
    logits += run.logits;
    choices += run.steps.size();
    std::vector<double>& steps = result.steps.seconds;
    if (steps.empty()) steps = run.steps;
    for (std::size_t s = 0; s < steps.size(); ++s) steps[s] = std::min(steps[s], run.steps[s]);
  }
  if (choices > 0)
    result.logits_computed =
        static_cast<double>(logits) / (static_cast<double>(choices) * plain.vocabulary());
  finish(result);
  if (!with_parts.empty()) {
    const auto middle = with_parts.begin() + static_cast<std::ptrdiff_t>(with_parts.size() / 2);
    std::ranges::nth_element(with_parts, middle, {}, &BenchSession::Run::seconds);
    result.parts = PartTimes{middle->parts};
  }
  return result;
}

}  // namespace

double StepTimes::percentile(double part) const {
  LLMC_CHECK(!seconds.empty() && part >= 0 && part <= 1);
  return llmc::percentile(seconds, part);
}

std::size_t StepTimes::largest() const {
  return static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
}

double PartTimes::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double BenchReport::macs(const BenchResult& result, const plan::Products& p) const {
  if (result.test != BenchResult::Test::kPrompt && result.test != BenchResult::Test::kGeneration)
    return 0;
  const bool once = result.test == BenchResult::Test::kPrompt && p.part == Part::kHead;
  return static_cast<double>(p.macs) * (once ? 1.0 : static_cast<double>(result.all_tokens()));
}

double BenchReport::bytes_read(const BenchResult& result, const plan::Products& p) const {
  // For a logit that is not computed, the lower two bits of the codes are not read.
  constexpr CodedFormat kSplit = kSplitSixBits;
  constexpr double kLower = kSplitLowerBytes;
  constexpr double kUpper = coded_block_bytes(kSplit) + kPanelRows * coded_number_bytes(kSplit);
  return static_cast<double>(p.bytes) - static_cast<double>(p.split_bytes) *
                                            (1 - result.logits_computed) * kLower /
                                            (kLower + kUpper);
}

double BenchReport::weight_bytes_read(const BenchResult& result) const {
  auto bytes = static_cast<double>(weight_bytes_per_token);
  for (const plan::Products& p : products)
    bytes -= static_cast<double>(p.bytes) - bytes_read(result, p);
  return bytes;
}

double BenchReport::cache_bytes_read(const BenchResult& result) const {
  double bytes = 0;
  for (const plan::CacheReads& reads : cache_reads)
    for (std::uint32_t i = 0; i < result.tokens; ++i)
      bytes += static_cast<double>(reads.bytes_at(result.steps.first_position + std::uint64_t{i}));
  return bytes * result.sequences;
}

Result<BenchReport> run_bench(const BenchOptions& options, const driver::Progress& progress) {
  LLMC_CHECK(!options.threads.empty() && !options.depths.empty() && options.repetitions > 0);
  LLMC_TRY(const auto native, exec::load_native(options.native, progress));
  LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(native->bundle()));
  const exec::ModelFacts& model = native->model();
  BenchReport report{.results = {},
                     .weight_bytes_per_token = facts.weights_per_token_bytes,
                     .weight_bytes = facts.weights_bytes,
                     .arena_bytes = facts.arena_bytes,
                     .cache_bytes = facts.cache_bytes,
                     .products = facts.products,
                     .cache_reads = facts.cache_reads,
                     .target = model.target,
                     .quant = facts.quant,
                     .rounding = facts.rounding,
                     .opt_level = facts.opt_level,
                     .emulator = native->emulator(),
                     .huge_pages = native->huge_pages()};
  LLMC_TRY(const std::vector<std::uint32_t> sources, sources_of(options, model));
  const std::uint32_t source = sources.empty() ? 0 : sources.back();
  LLMC_TRY(const std::vector<Test> tests,
           tests_of(options, sources, model, facts.media.is_sound()));
  exec::StageClock clock(kParts);
  std::unique_ptr<exec::NativeModel> timed;
  if (options.layers) {
    driver::report(progress, "compile with times", 0, 0);
    LLMC_TRY(timed, load_with_stage_times(*native, options.native.compile,
                                          options.native.huge_pages, clock));
  }
  const bool sampled = options.sample && report.emulator.empty();
  if (sampled) LLMC_RETURN_IF_ERROR(options.sample(report));
  const std::uint64_t total = options.threads.size() * tests.size() * (options.repetitions + 1);
  std::uint64_t done = 0;
  for (const std::uint32_t threads : options.threads) {
    // Stages are timed on the CPU, one after the other, so `layers` disables the device.
    const exec::SessionOptions session{
        .threads = threads, .cores = options.cores, .use_device = !options.layers};
    LLMC_TRY(auto started, native->start(session));
    BenchSession plain(std::move(started), model, source, nullptr);
    if (model.image_rows > 0) LLMC_RETURN_IF_ERROR(plain.make_image(facts));
    std::optional<BenchSession> with_times;
    if (timed) {
      LLMC_TRY(auto other, timed->start(session));
      with_times.emplace(std::move(other), model, source, &clock);
    }
    for (const Test& test : tests) {
      // The stages of a media encoder are not timed.
      BenchSession* const timed_session = with_times && !test.is_image() ? &*with_times : nullptr;
      LLMC_TRY(BenchResult result,
               measure(test, threads, options.repetitions, plain, timed_session,
                       [&] { driver::report(progress, "bench", done++, total); }));
      report.results.push_back(std::move(result));
    }
    if (const auto used = plain.device_use()) report.devices.push_back(*used);
  }
  if (sampled) LLMC_RETURN_IF_ERROR(options.sample(report));
  driver::report(progress, "bench", total, total);
  return report;
}

}  // namespace llmc::bench
