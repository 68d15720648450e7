#include "runtime/hosted/chat/conversation.h"

#include <algorithm>
#include <chrono>

namespace llmc::hosted {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Failure failed(llmc_status status) {
  return {status, llmc_status_text(status)};
}

bool is_set(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

}  // namespace

Conversation::Conversation(Sequence& sequence, const ChatFormat& format,
                           std::vector<std::int32_t> begun)
    : sequence_(sequence),
      format_(format),
      begun_(std::move(begun)),
      base_(begun_.empty() ? sequence.position() : 0),
      cached_(begun_) {}

void Conversation::add(std::string role, std::string content) {
  messages_.push_back({std::move(role), std::move(content), {}});
}

void Conversation::set_system(std::string content) {
  const bool there = !messages_.empty() && messages_.front().role == "system";
  if (there) messages_.erase(messages_.begin());
  if (!content.empty()) messages_.insert(messages_.begin(), {"system", std::move(content), {}});
}

void Conversation::drop_last() {
  if (!messages_.empty()) messages_.pop_back();
}

llmc_status Conversation::reset() {
  if (const llmc_status bad = begun_.empty() ? sequence_.rewind(base_) : sequence_.reset())
    return bad;
  const bool system = !messages_.empty() && messages_.front().role == "system";
  messages_.resize(system ? 1 : 0);
  cached_ = begun_;
  last_.reset();
  return LLMC_OK;
}

std::vector<std::int32_t> Conversation::ids_of(const std::string& text) const {
  if (last_ && text.starts_with(last_->text)) {
    if (auto rest = format_.encode_behind(std::string_view(text).substr(last_->text.size()))) {
      std::vector<std::int32_t> ids = last_->ids;
      ids.insert(ids.end(), rest->begin(), rest->end());
      return ids;
    }
  }
  return format_.encode(text);
}

Outcome<bool> Conversation::run(const std::vector<std::int32_t>& ids, const AnswerOptions& options,
                                Answer& answer) {
  const auto shared = [&](const std::vector<std::int32_t>& tokens) {
    return static_cast<std::size_t>(std::ranges::mismatch(ids, tokens).in1 - ids.begin());
  };
  if (shared(begun_) > shared(cached_)) {
    if (const llmc_status bad = sequence_.reset()) return failed(bad);
    cached_ = begun_;
  }
  std::size_t common = shared(cached_);
  // The logits after a token are there only when it was run last.
  if (common == ids.size()) --common;
  if (common < cached_.size()) {
    if (const llmc_status bad = sequence_.rewind(base_ + common)) return failed(bad);
    cached_.resize(common);
  }
  answer.kept_tokens = common;
  const std::size_t chunk = std::max<std::size_t>(sequence_.chunk(), 1);
  while (cached_.size() < ids.size()) {
    if (is_set(options.cancel)) return false;
    const std::size_t count = std::min(chunk, ids.size() - cached_.size());
    const std::span<const std::int32_t> next(ids.data() + cached_.size(), count);
    if (const llmc_status bad = sequence_.append(next)) return failed(bad);
    cached_.insert(cached_.end(), next.begin(), next.end());
    answer.prompt_tokens += count;
  }
  return true;
}

Outcome<Answer> Conversation::answer(const AnswerOptions& options) {
  auto text = format_.render(messages_, true);
  if (!text) return text.failure();
  const std::vector<std::int32_t> ids = ids_of(*text);
  if (ids.empty())
    return Failure{LLMC_ERROR_ARGUMENT, "there is no text and the model has no beginning token"};
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= sequence_.vocabulary()) {
      return Failure{LLMC_ERROR_TOKEN, "the tokenizer gives id " + std::to_string(id) +
                                           ", which the model does not know"};
    }
  }
  if (ids.size() > sequence_.context() - base_) {
    return Failure{LLMC_ERROR_CONTEXT_FULL, "the conversation's " + std::to_string(ids.size()) +
                                                " tokens do not fit the context of " +
                                                std::to_string(sequence_.context())};
  }
  Answer answer;
  auto start = Clock::now();
  const auto done = run(ids, options, answer);
  answer.prompt_seconds = seconds_since(start);
  if (!done) return done.failure();
  if (!*done) {
    answer.why = Stopped::kCancelled;
    return answer;
  }
  answer.begun = true;

  GenerateOptions generation;
  if (options.max_tokens > 0) generation.max_tokens = options.max_tokens;
  generation.is_stop = [&](std::int32_t id) { return format_.is_stop(id); };
  generation.stop_texts = format_.stop_texts();
  generation.stop_texts.insert(generation.stop_texts.end(), options.stop_texts.begin(),
                               options.stop_texts.end());
  generation.cancel = options.cancel;
  generation.on_text = options.on_text;
  generation.at_start = text->empty();
  Generated generated;
  start = Clock::now();
  const llmc_status status = generate(sequence_, format_.tokenizer(), generation, generated);
  answer.seconds = seconds_since(start);
  const auto run_end = generated.ids.begin() + static_cast<std::ptrdiff_t>(generated.run);
  cached_.insert(cached_.end(), generated.ids.begin(), run_end);
  if (status != LLMC_OK) return failed(status);

  last_.reset();
  if (generated.exact) {
    last_ = Last{*text + generated.text, ids};
    last_->ids.insert(last_->ids.end(), generated.ids.begin(), generated.ids.end());
  }
  answer.why = generated.why;
  answer.tokens = generated.ids.size();
  answer.text = std::move(generated.text);
  Message message{"assistant", answer.text, {}};
  if (generated.why == Stopped::kStopToken)
    message.ending = format_.tokenizer().name_of(generated.stop_token);
  messages_.push_back(std::move(message));
  return answer;
}

}  // namespace llmc::hosted
