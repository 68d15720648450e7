#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/chat/format.h"
#include "runtime/hosted/chat/generate.h"

namespace llmc::hosted {

struct AnswerOptions {
  std::size_t max_tokens = 0;  // 0: limited only by the context
  /// Texts that end the answer, in addition to those of the format.
  std::vector<std::string> stop_texts;
  const std::atomic<bool>* cancel = nullptr;  // may be set by another thread or a signal handler
  std::function<bool(std::string_view)> on_text;  // as in GenerateOptions
  /// When the context is full, removes the oldest messages, up to a later message of the user
  /// (without a template: any later message). The system message and the last turn are never
  /// removed.
  bool forgets_oldest = false;
};

struct Answer {
  Stopped why = Stopped::kLength;
  bool begun = false;  // false: cancelled before the prompt was complete, so there is no answer
  std::string text;
  std::size_t tokens = 0;  // number of generated tokens
  /// Number of tokens run before the answer, including those run again after messages were removed.
  std::size_t prompt_tokens = 0;
  /// Number of tokens of the conversation that were reused from the cache.
  std::size_t kept_tokens = 0;
  std::size_t forgotten = 0;  // number of messages removed because the context was full
  double prompt_seconds = 0, seconds = 0;
};

/// A list of messages, and the sequence that caches their tokens. For each answer, the text of all
/// messages is rendered again and its tokens are compared with the cached ones. The sequence is
/// rewound to the first difference, and the tokens after it are run. The tokens therefore always
/// spell the complete text, even if the template changes earlier turns. As long as the text begins
/// with that of the last answer, the generated tokens are used instead of encoding it again.
class Conversation {
 public:
  /// Requires exclusive use of the sequence. The sequence and the format must outlive this object.
  /// `begun`: the tokens with which all sequences of this model begin, if the sequence contains
  /// exactly these tokens. They then count as cached tokens of the conversation, up to the first
  /// difference from its text. If `begun` is empty, tokens that are already in the sequence stay
  /// before the conversation.
  Conversation(Sequence& sequence, const ChatFormat& format, std::vector<std::int32_t> begun = {});

  /// Appends a message without running the model.
  void add(std::string role, std::string content);
  /// Replaces the system message at the beginning, or removes it if the content is empty.
  void set_system(std::string content);
  /// Removes the last message.
  void drop_last();
  /// Removes all messages except the system message, and all tokens of the conversation except
  /// `begun`.
  llmc_status reset();
  const std::vector<Message>& messages() const { return messages_; }

  /// Generates the answer to the messages and appends it, unless it was cancelled before it began.
  /// On failure the messages are unchanged. Fails with a status of the session, with
  /// LLMC_ERROR_FORMAT if the template rejects the messages, with LLMC_ERROR_ARGUMENT if they have
  /// no tokens, with LLMC_ERROR_TOKEN if the model does not know a token, and with
  /// LLMC_ERROR_CONTEXT_FULL if they do not fit.
  Outcome<Answer> answer(const AnswerOptions& options);

  /// Returns the number of tokens in the sequence.
  std::size_t tokens() const { return base_ + cached_.size(); }
  /// Convert the messages to JSON and back. If `cache` is the result of save_cache(), the JSON
  /// refers to a file `cache_name` in the same folder. load() does not run the model: the next
  /// answer runs the tokens. On failure nothing has changed.
  std::string save(const std::string& cache_name = {}, std::string_view cache = {}) const;
  std::optional<Failure> load(std::string_view json, const std::string& name);
  /// Returns the cache of the tokens that were run so far. Fails if the sequence cannot save it,
  /// and with LLMC_ERROR_STATE if it begins with tokens that are not part of the conversation.
  Outcome<std::string> save_cache();
  /// Returns the `cache_name` that was passed to save(); empty if there was none, or if the text is
  /// not a saved conversation.
  static std::string cache_name(std::string_view json);
  /// Replaces the cache after load() of the same JSON, so that its tokens need not be run again. On
  /// failure the next answer runs them.
  std::optional<Failure> load_cache(std::string_view json, std::string_view cache);

 private:
  /// State after the last answer, which preserves the exact tokens of that answer.
  struct Last {
    std::string text;  // text of the conversation including the answer
    std::vector<std::int32_t> ids;
  };
  /// Input of the model for an answer.
  struct Prompt {
    std::vector<Message> messages;
    std::string text;
    std::vector<std::int32_t> ids;
  };
  std::vector<std::int32_t> ids_of(const std::string& text) const;
  Outcome<Prompt> prompt_of(std::vector<Message> messages) const;
  /// Returns the prompt without the oldest turns. Removes as few turns as possible, but never the
  /// last one, so that the rest and `more` tokens fill at most half of room(). Half, because the
  /// remaining tokens must be run again, which should happen rarely. nullopt: no turn can be
  /// removed, or the last turn does not fit.
  Outcome<std::optional<Prompt>> without_oldest(const std::vector<Message>& messages,
                                                std::size_t more) const;
  /// Returns the maximum number of tokens of the conversation.
  std::size_t room() const { return sequence_.context() - base_; }
  /// Runs those of `ids` that are not cached, and counts them in `answer`. Returns false if
  /// cancelled.
  Outcome<bool> run(const std::vector<std::int32_t>& ids, const AnswerOptions& options,
                    Answer& answer);
  /// Generates after the prefilled `prompt`. If turns are removed while it generates, `prompt` is
  /// replaced by the new prompt.
  std::optional<Failure> generate_answer(const AnswerOptions& options, Prompt& prompt,
                                         Answer& answer, Generated& generated);

  Sequence& sequence_;
  const ChatFormat& format_;
  const std::vector<std::int32_t> begun_;  // tokens in the sequence after a reset
  const std::size_t base_;                 // number of tokens before the conversation
  std::vector<Message> messages_;
  std::vector<std::int32_t> cached_;  // tokens of the conversation that are in the sequence
  std::optional<Last> last_;
};

}  // namespace llmc::hosted
