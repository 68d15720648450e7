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

bool has_system(const std::vector<Message>& messages) {
  return !messages.empty() && messages.front().role == "system";
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
  if (has_system(messages_)) messages_.erase(messages_.begin());
  if (!content.empty()) messages_.insert(messages_.begin(), {"system", std::move(content), {}});
}

void Conversation::drop_last() {
  if (!messages_.empty()) messages_.pop_back();
}

llmc_status Conversation::reset() {
  if (const llmc_status bad = begun_.empty() ? sequence_.rewind(base_) : sequence_.reset())
    return bad;
  messages_.resize(has_system(messages_) ? 1 : 0);
  cached_ = begun_;
  last_.reset();
  return LLMC_OK;
}

std::vector<std::int32_t> Conversation::ids_of(const std::string& text) const {
  if (last_ && text.starts_with(last_->text)) {
    if (auto rest =
            format_.encode_continuation(std::string_view(text).substr(last_->text.size()))) {
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
  // The logits after the last token are available only if it is run now.
  if (common == ids.size()) --common;
  // If an answer ended with an exception, the sequence may contain more tokens than `cached_`.
  if (base_ + common < sequence_.position()) {
    if (const llmc_status bad = sequence_.rewind(base_ + common)) return failed(bad);
  }
  cached_.resize(common);
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

Outcome<Conversation::Prompt> Conversation::prompt_of(std::vector<Message> messages) const {
  auto text = format_.render(messages, true);
  if (!text) return text.failure();
  Prompt prompt{std::move(messages), *std::move(text), {}};
  prompt.ids = ids_of(prompt.text);
  if (prompt.ids.empty())
    return Failure{LLMC_ERROR_ARGUMENT,
                   "the text is empty and the model has no beginning-of-sequence token"};
  for (const std::int32_t id : prompt.ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= sequence_.vocabulary()) {
      return Failure{LLMC_ERROR_TOKEN, "the tokenizer gives id " + std::to_string(id) +
                                           ", which the model does not know"};
    }
  }
  return prompt;
}

Outcome<std::optional<Conversation::Prompt>> Conversation::without_oldest(
    const std::vector<Message>& messages, std::size_t more) const {
  const std::size_t first = has_system(messages) ? 1 : 0;
  // Indices of the first messages of all turns except the first turn.
  std::vector<std::size_t> begins;
  // Without a template the messages are one text, which may begin with any message.
  for (std::size_t i = first + 1; i < messages.size(); ++i)
    if (!format_.has_template() || messages[i].role == "user") begins.push_back(i);
  if (begins.empty()) return std::optional<Prompt>();
  const auto from = [&](std::size_t begin) {
    std::vector<Message> left(messages.begin(),
                              messages.begin() + static_cast<std::ptrdiff_t>(first));
    left.insert(left.end(), messages.begin() + static_cast<std::ptrdiff_t>(begin), messages.end());
    return left;
  };
  // Remove as few turns as possible. Binary search, because a conversation may have thousands.
  std::size_t low = 0, high = begins.size() - 1;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const auto prompt = prompt_of(from(begins[middle]));
    if (!prompt) return prompt.failure();
    if (prompt->ids.size() + more <= room() / 2)
      high = middle;
    else
      low = middle + 1;
  }
  auto prompt = prompt_of(from(begins[low]));
  if (!prompt) return prompt.failure();
  if (prompt->ids.size() + more >= room()) return std::optional<Prompt>();
  return std::optional<Prompt>(*std::move(prompt));
}

std::optional<Failure> Conversation::generate_answer(const AnswerOptions& options, Prompt& prompt,
                                                     Answer& answer, Generated& generated) {
  GenerateOptions generation;
  if (options.max_tokens > 0) generation.max_tokens = options.max_tokens;
  generation.is_stop = [&](std::int32_t id) { return format_.is_stop(id); };
  generation.stop_texts = format_.stop_texts();
  generation.stop_texts.insert(generation.stop_texts.end(), options.stop_texts.begin(),
                               options.stop_texts.end());
  generation.cancel = options.cancel;
  generation.on_text = options.on_text;
  generation.at_start = prompt.text.empty();
  bool whole = true;  // whether the sequence contains the prompt and the complete answer so far
  bool cancelled = false;
  std::optional<Failure> why;
  const double prompt_seconds = answer.prompt_seconds;
  const auto forget = [&](std::span<const std::int32_t> ran) -> Outcome<bool> {
    auto shorter = without_oldest(prompt.messages, ran.size());
    if (!shorter) return shorter.failure();
    if (!*shorter) return false;
    whole = false;
    cached_.insert(cached_.end(), ran.begin(), ran.end());
    const std::size_t kept = answer.kept_tokens;
    std::vector<std::int32_t> ids = (*shorter)->ids;
    auto done = run(ids, options, answer);
    if (done && *done) {
      // The text that a grammar constrains begins after the prompt.
      if (const llmc_status bad = sequence_.begin_text()) return failed(bad);
      ids.insert(ids.end(), ran.begin(), ran.end());
      if (!ran.empty()) done = run(ids, options, answer);
    }
    answer.kept_tokens = kept;
    cancelled = done && !*done;
    if (!done || cancelled) return done;
    cached_.resize(
        (*shorter)->ids.size());  // the tokens of the answer are counted when the answer has ended
    whole = true;
    prompt = *std::move(*shorter);
    return true;
  };
  generation.make_room = [&](std::span<const std::int32_t> ran, bool& made) -> llmc_status {
    if (!options.forgets_oldest) return LLMC_OK;
    const auto begin = Clock::now();
    const auto done = forget(ran);
    answer.prompt_seconds += seconds_since(begin);
    if (!done) why = done.failure();
    made = done && *done;
    return done ? LLMC_OK : done.failure().status;
  };
  const auto begin = Clock::now();
  const llmc_status status = generate(sequence_, format_.tokenizer(), generation, generated);
  answer.seconds = seconds_since(begin) - (answer.prompt_seconds - prompt_seconds);
  if (cancelled) generated.why = Stopped::kCancelled;
  const auto run_end = generated.ids.begin() + static_cast<std::ptrdiff_t>(generated.run);
  if (whole) cached_.insert(cached_.end(), generated.ids.begin(), run_end);
  if (status == LLMC_OK) return std::nullopt;
  return why ? std::move(*why) : failed(status);
}

Outcome<Answer> Conversation::answer(const AnswerOptions& options) {
  auto prompt = prompt_of(messages_);
  if (!prompt) return prompt.failure();
  if (prompt->ids.size() > room()) {
    const Failure full{LLMC_ERROR_CONTEXT_FULL, "the conversation's " +
                                                    std::to_string(prompt->ids.size()) +
                                                    " tokens do not fit the context of " +
                                                    std::to_string(sequence_.context())};
    if (!options.forgets_oldest) return full;
    auto shorter = without_oldest(messages_, 0);
    if (!shorter) return shorter.failure();
    if (!*shorter) return full;
    prompt = *std::move(*shorter);
  }
  Answer answer;
  const auto start = Clock::now();
  const auto done = run(prompt->ids, options, answer);
  answer.prompt_seconds = seconds_since(start);
  if (!done) return done.failure();
  if (!*done) {
    answer.why = Stopped::kCancelled;
    return answer;
  }
  answer.begun = true;
  Generated generated;
  if (auto failure = generate_answer(options, *prompt, answer, generated)) return *failure;

  last_.reset();
  if (generated.exact) {
    last_ = Last{prompt->text + generated.text, std::move(prompt->ids)};
    last_->ids.insert(last_->ids.end(), generated.ids.begin(), generated.ids.end());
  }
  answer.why = generated.why;
  answer.tokens = generated.ids.size();
  answer.text = std::move(generated.text);
  answer.forgotten = messages_.size() - prompt->messages.size();
  messages_ = std::move(prompt->messages);
  Message message{"assistant", answer.text, {}};
  if (generated.why == Stopped::kStopToken)
    message.ending = format_.tokenizer().name_of(generated.stop_token);
  messages_.push_back(std::move(message));
  return answer;
}

}  // namespace llmc::hosted
