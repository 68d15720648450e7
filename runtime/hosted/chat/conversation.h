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
  std::size_t max_tokens = 0;                 // 0: until it ends or the context is full
  std::vector<std::string> stop_texts;        // end it, besides the format's
  const std::atomic<bool>* cancel = nullptr;  // may be set by another thread or a signal handler
  std::function<bool(std::string_view)> on_text;
  /// When the context is full, the oldest messages are forgotten, up to where another of the user's
  /// begins; the system message and the last turn stay.
  bool forgets_oldest = false;
};

struct Answer {
  Stopped why = Stopped::kLength;
  bool begun = false;  // false: cancelled before the prompt was done; there is no answer then
  std::string text;
  std::size_t tokens = 0;         // generated
  std::size_t prompt_tokens = 0;  // run before them, and again to make room
  std::size_t kept_tokens = 0;    // of the conversation that were in the cache already
  std::size_t forgotten = 0;      // messages, to make room
  double prompt_seconds = 0, seconds = 0;
};

/// Messages, and the cache of a sequence that follows them: for an answer only tokens that are not
/// in it yet are run. The text of all messages is made anew for each answer and its tokens compared
/// with those in the cache, which is rewound to where they part: whatever a template does to
/// earlier turns, the tokens are those of the whole text.
class Conversation {
 public:
  /// Both must outlive it, and the sequence is nobody else's. Tokens it holds already stay in
  /// front, unless they are `begun`: then they are what sequences of this model begin with, and
  /// part of a conversation as far as its text has them.
  Conversation(Sequence& sequence, const ChatFormat& format, std::vector<std::int32_t> begun = {});

  /// Says something; nothing is run.
  void add(std::string role, std::string content);
  /// Replaces or, when empty, removes the system message at the beginning.
  void set_system(std::string content);
  /// Takes the last message back.
  void drop_last();
  /// Forgets messages and tokens; the system message stays.
  llmc_status reset();
  const std::vector<Message>& messages() const { return messages_; }

  /// Lets the model answer and adds what it says. Failure (the session's status; LLMC_ERROR_FORMAT
  /// when the template refuses the messages, LLMC_ERROR_CONTEXT_FULL when they do not fit): the
  /// messages are as before.
  Outcome<Answer> answer(const AnswerOptions& options);

  /// In the sequence.
  std::size_t tokens() const { return base_ + cached_.size(); }
  /// The messages as JSON text, and back. Loading runs nothing: the next answer does. A Failure
  /// leaves everything as it was. With `cache`, what save_cache() gave, the text says that a file
  /// of this name beside it holds it.
  std::string save(const std::string& cache_name = {}, std::string_view cache = {}) const;
  std::optional<Failure> load(std::string_view json, const std::string& name);
  /// The cache of the tokens that were run so far; a Failure when the sequence gives none.
  Outcome<std::string> save_cache();
  /// The name that save() was given; empty: none, or no conversation that was saved.
  static std::string cache_name(std::string_view json);
  /// After load() of the same text: takes the cache in place of the one there is, so that what was
  /// run is not run again. A Failure says why not: the next answer runs it.
  std::optional<Failure> load_cache(std::string_view json, std::string_view cache);

 private:
  /// What was known when the last answer ended, to keep the very tokens it was made of.
  struct Last {
    std::string text;  // of the conversation, the answer included
    std::vector<std::int32_t> ids;
  };
  /// What the model reads before an answer.
  struct Prompt {
    std::vector<Message> messages;
    std::string text;
    std::vector<std::int32_t> ids;
  };
  std::vector<std::int32_t> ids_of(const std::string& text) const;
  Outcome<Prompt> prompt_of(std::vector<Message> messages) const;
  /// Without as many of the oldest turns as make what is left and `more` tokens fill half of the
  /// room, or all but the last: who makes room runs all that is left again, so it is made seldom.
  /// nullopt: there is none to make.
  Outcome<std::optional<Prompt>> without_oldest(const std::vector<Message>& messages,
                                                std::size_t more) const;
  /// For tokens of the conversation.
  std::size_t room() const { return sequence_.context() - base_; }
  /// Runs what the cache lacks of `ids`; false when cancelled. `answer` counts them.
  Outcome<bool> run(const std::vector<std::int32_t>& ids, const AnswerOptions& options,
                    Answer& answer);
  /// Lets the model speak behind `prompt`, which was run. Where room is made, `prompt` is what
  /// stands before the answer from then on.
  std::optional<Failure> speak(const AnswerOptions& options, Prompt& prompt, Answer& answer,
                               Generated& generated);

  Sequence& sequence_;
  const ChatFormat& format_;
  const std::vector<std::int32_t> begun_;  // there after a reset of the sequence
  const std::size_t base_;                 // tokens in front of the conversation
  std::vector<Message> messages_;
  std::vector<std::int32_t> cached_;  // the tokens in the sequence behind them
  std::optional<Last> last_;
};

}  // namespace llmc::hosted
