#include "tools/llmc/draft_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/support/stopwatch.h"

namespace llmc::cli {
namespace {

/// Returns the options with which the draft model `path` is compiled. `ctx`: context of the main
/// model in tokens.
ModelOptions options_of_draft(ModelOptions like, const std::string& path, std::uint32_t ctx) {
  const driver::CompileOptions defaults;
  driver::CompileOptions& compile = like.compile;
  like.model = path;
  like.fixed.clear();  // do not reject these options if `path` is a bundle
  // Limit the context to the trained one, because drafts beyond it would be useless.
  compile.ctx = ctx;
  compile.ctx_given = false;
  // A draft model has a single sequence, which begins empty.
  compile.sequences = defaults.sequences;
  compile.batch = defaults.batch;
  compile.pool = defaults.pool;
  compile.sources = defaults.sources;
  compile.source_max = defaults.source_max;
  compile.dims = defaults.dims;
  compile.system_prompt = defaults.system_prompt;
  compile.accelerate = defaults.accelerate;
  compile.in_flight = defaults.in_flight;
  like.opencl_device.clear();
  // Do not calibrate, because the main model checks every proposed token.
  like.calibrate = "none";
  like.parse_special = false;
  like.budget = {};
  return like;
}

}  // namespace

void DraftPace::note(double seconds, std::uint32_t tokens) {
  if (std::exchange(is_first_, false)) return;  // it also loads the pages of the weights
  Passes& passes = drafts_ ? with_ : without_;
  passes.seconds += seconds;
  passes.tokens += tokens;
  if (++count_ < limit_) return;
  count_ = 0;
  if (is_trial_) {
    is_trial_ = false;
    drafts_ = with_.per_token() < without_.per_token();
    limit_ = kLong;
    (drafts_ ? with_ : without_) = {};
  } else {
    is_trial_ = true;
    drafts_ = !drafts_;
    limit_ = kTrial;
    (drafts_ ? with_ : without_) = {};
  }
}

Result<std::unique_ptr<DraftModel>> DraftModel::load(
    const std::string& path, const ModelOptions& like, const exec::NativeModel& model,
    const exec::SessionOptions& options, const SamplingOptions& sampling,
    const hosted::Tokenizer* tokenizer, std::uint32_t most, const Globals& globals) {
  if (path.empty()) return std::unique_ptr<DraftModel>();
  if (!model.emulator().empty() || globals.ranks != nullptr)
    return usage_error("--draft needs a model that runs in this process",
                       "leave out --draft, or choose a --target of this processor");
  auto loaded = cli::load(options_of_draft(like, path, model.model().ctx), globals);
  if (!loaded.ok()) return std::move(loaded).error().in_file(path);
  auto native = *std::move(loaded);
  const exec::ModelFacts& facts = native->model();
  const auto refuse = [&](const std::string& why) {
    return usage_error(fmt::format("--draft {}: {}", printable(path, 200), why),
                       "name a smaller model with the same tokenizer, or use --lookup alone");
  };
  if (facts.vocab != model.model().vocab)
    return refuse(fmt::format("its vocabulary has {} tokens, that of the model {}", facts.vocab,
                              model.model().vocab));
  if (facts.source_max != 0) return refuse("it is an encoder-decoder");
  if (facts.single_steps != 0) return refuse(fmt::format("it has {}", kSingleStepsReason));
  exec::SessionOptions own = options;
  own.threads = std::min(options.threads, facts.threads_max);
  own.begin = LLMC_BEGIN_EMPTY;
  own.chunk = 0;
  LLMC_TRY(auto session, native->start(own));
  LLMC_RETURN_IF_ERROR(use_sampling(sampling, tokenizer, facts.vocab, *session));
  return std::unique_ptr<DraftModel>(new DraftModel(std::move(native), std::move(session), most));
}

bool DraftModel::append_draft(std::vector<std::int32_t> text, std::size_t most,
                              std::vector<std::int32_t>& draft) {
  if (text.size() + most > model_->model().ctx) return false;
  constexpr std::int32_t kEmbedding = -1;
  if (std::ranges::find(text, kEmbedding) != text.end()) return false;
  // Always append the last token of the text, because its logits are needed.
  const auto same =
      static_cast<std::size_t>(std::ranges::mismatch(tokens_, text).in2 - text.begin());
  const std::size_t kept = std::min(same, text.size() - 1);
  tokens_.resize(kept);
  if (!session_->call(&exec::Api::rewind, kept).ok()) return false;
  if (!session_->prefill(std::span(text).subspan(kept)).ok()) return false;
  const bool catches_up = text.size() - kept > most_;
  tokens_ = std::move(text);
  while (draft.size() < most) {
    const bool is_last = draft.size() + 1 == most;
    const auto token = is_last ? session_->sample() : session_->step();
    if (!token.ok()) break;
    draft.push_back(*token);
    if (!is_last) tokens_.push_back(*token);
  }
  return catches_up;
}

Result<std::vector<std::int32_t>> DraftModel::step(exec::Session& session, std::size_t most,
                                                   std::span<const std::int32_t> stop_ids) {
  const Stopwatch watch;
  const std::uint32_t before = session.position();
  std::vector<std::int32_t> draft;
  bool catches_up = false;
  if (pace_.drafts()) {
    // The next token is certain. The draft model proposes only the tokens after it.
    LLMC_TRY(const std::int32_t next, session.sample());
    draft.push_back(next);
    if (std::ranges::find(stop_ids, next) == stop_ids.end()) {
      std::vector<std::int32_t> text(before);
      LLMC_RETURN_IF_ERROR(session.call(&exec::Api::tokens, 0, text.data(), text.size()));
      text.push_back(next);
      catches_up = append_draft(std::move(text), std::min(most, length_), draft);
    }
  }
  LLMC_TRY(const std::vector<std::int32_t> tokens, session.step_draft(draft, stop_ids));
  const std::uint32_t appended = session.position() - before;
  if (draft.size() > 1)
    length_ = std::min<std::size_t>(appended == draft.size() ? 2 * length_ : appended + 1, most_);
  if (!catches_up)  // a pass that catches up is not typical
    pace_.note(watch.seconds(), std::max(appended, 1u));
  return tokens;
}

}  // namespace llmc::cli
