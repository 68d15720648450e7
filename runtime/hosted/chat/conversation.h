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
  std::size_t max_tokens = 0;                 // 0: no limit but the context
  std::vector<std::string> stop_texts;        // end it, in addition to those of the format
  const std::atomic<bool>* cancel = nullptr;  // may be set by another thread or a signal handler
  std::function<bool(std::string_view)> on_text;
  /// When the context is full, drops the oldest messages up to a later message of the user. The
  /// system message and the last turn stay.
  bool forgets_oldest = false;
};

struct Answer {
  Stopped why = Stopped::kLength;
  bool begun = false;  // false: cancelled while running the prompt; there is no answer
  std::string text;
  std::size_t tokens = 0;         // generated
  std::size_t prompt_tokens = 0;  // tokens run before the answer, and again after making room
  std::size_t kept_tokens = 0;    // tokens of the conversation reused from the cache
  std::size_t forgotten = 0;      // messages dropped to make room
  double prompt_seconds = 0, seconds = 0;
};

/// A list of messages and the sequence that caches their tokens. For an answer, only tokens that
/// are not cached yet are run: the text of all messages is rendered again and its tokens are
/// compared with the cached ones, which are rewound to the first difference. So whatever a template
/// does to earlier turns, the tokens are those of the complete text.
class Conversation {
 public:
  /// Requires exclusive use of the sequence; sequence and format must outlive this object. Tokens
  /// that the sequence already holds stay in front of the conversation, unless they are `begun`:
  /// the tokens with which all sequences of this model begin, which count as part of the
  /// conversation if its text contains them.
  Conversation(Sequence& sequence, const ChatFormat& format, std::vector<std::int32_t> begun = {});

  /// Appends a message without running the model.
  void add(std::string role, std::string content);
  /// Replaces the leading system message or, if the content is empty, removes it.
  void set_system(std::string content);
  /// Removes the last message.
  void drop_last();
  /// Removes all messages and tokens except the system message.
  llmc_status reset();
  const std::vector<Message>& messages() const { return messages_; }

  /// Generates the answer to the messages and appends it. On a Failure the messages are unchanged:
  /// a status of the session, LLMC_ERROR_FORMAT if the template rejects the messages,
  /// LLMC_ERROR_CONTEXT_FULL if they do not fit.
  Outcome<Answer> answer(const AnswerOptions& options);

  /// Number of tokens in the sequence.
  std::size_t tokens() const { return base_ + cached_.size(); }
  /// Convert the messages to JSON and back. Loading runs nothing: the next answer does. After a
  /// Failure nothing has changed. With `cache`, the result of save_cache(), the JSON refers to a
  /// file of this name in the same folder.
  std::string save(const std::string& cache_name = {}, std::string_view cache = {}) const;
  std::optional<Failure> load(std::string_view json, const std::string& name);
  /// Returns the cache of the tokens run so far, or a Failure if the sequence cannot save it.
  Outcome<std::string> save_cache();
  /// Returns the name that was passed to save(); empty: none, or not a saved conversation.
  static std::string cache_name(std::string_view json);
  /// Replaces the cache after load() of the same text, so that its tokens need not be run again. On
  /// a Failure the next answer runs them.
  std::optional<Failure> load_cache(std::string_view json, std::string_view cache);

 private:
  /// State after the last answer, to keep the exact tokens it consists of.
  struct Last {
    std::string text;  // text of the conversation including the answer
    std::vector<std::int32_t> ids;
  };
  /// Input of the model before an answer.
  struct Prompt {
    std::vector<Message> messages;
    std::string text;
    std::vector<std::int32_t> ids;
  };
  std::vector<std::int32_t> ids_of(const std::string& text) const;
  Outcome<Prompt> prompt_of(std::vector<Message> messages) const;
  /// Drops as many of the oldest turns as needed for the rest and `more` tokens to fill half of the
  /// room, or all but the last one. Half, because making room runs all remaining tokens again and
  /// should be rare. nullopt: nothing can be dropped.
  Outcome<std::optional<Prompt>> without_oldest(const std::vector<Message>& messages,
                                                std::size_t more) const;
  /// Capacity in tokens of the conversation.
  std::size_t room() const { return sequence_.context() - base_; }
  /// Runs those of `ids` that are not cached; returns false if cancelled. Counts them in `answer`.
  Outcome<bool> run(const std::vector<std::int32_t>& ids, const AnswerOptions& options,
                    Answer& answer);
  /// Generates after the prefilled `prompt`. If room is made, `prompt` becomes what precedes the
  /// answer from then on.
  std::optional<Failure> speak(const AnswerOptions& options, Prompt& prompt, Answer& answer,
                               Generated& generated);

  Sequence& sequence_;
  const ChatFormat& format_;
  const std::vector<std::int32_t> begun_;  // tokens present after a reset of the sequence
  const std::size_t base_;                 // number of tokens before the conversation
  std::vector<Message> messages_;
  std::vector<std::int32_t> cached_;  // tokens in the sequence after these
  std::optional<Last> last_;
};

}  // namespace llmc::hosted
