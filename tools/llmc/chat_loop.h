#pragma once

#include <string>
#include <vector>

#include "runtime/hosted/chat/conversation.h"
#include "tools/llmc/cli.h"
#include "tools/llmc/line_reader.h"
#include "tools/llmc/native_sequence.h"

namespace llmc::cli {

struct ChatSettings {
  std::string model;  // path given by the user
  std::string target;
  std::string no_template;  // why there is no chat template, for the greeting; or empty
  std::size_t max_tokens = 0;
  std::vector<std::string> stop_texts;
  bool forgets_oldest = false;  // see hosted::AnswerOptions
  std::string lookup;           // LookupOptions::name()
  std::string other_tokenizer;  // hint for ids that the model does not know
};

/// Reads messages, prints answers and executes /commands until the input ends.
class ChatLoop {
 public:
  /// All arguments except `settings` must outlive the loop. `interrupts` is nullptr if the input is
  /// a script and not a terminal: then no prompts are printed, and the first error ends the loop.
  ChatLoop(ChatSettings settings, const Globals& globals, hosted::Conversation& conversation,
           const hosted::ChatFormat& format, NativeSequence& sequence, LineReader& lines,
           Interrupts* interrupts);

  /// Runs the loop and returns the exit code.
  int run();
  /// Answers one message, without interpreting commands, and returns the exit code.
  int run_once(const std::string& text);

 private:
  enum class Next : std::uint8_t { kGoOn, kLeave };
  struct Totals {
    std::size_t answers = 0, tokens = 0, prompt_tokens = 0, kept_tokens = 0;
    double seconds = 0, prompt_seconds = 0;
  };

  void greet() const;
  /// Reads the lines of one message. A message continues on the next line after a `\` at the end of
  /// a line, and between two """. Returns false at the end of the input, after Ctrl-C twice in
  /// a row at an empty prompt, and if a message of a script is too long.
  bool read_message(std::string& message);
  LineReader::Event read_line(bool first, std::string& line);
  Next say(const std::string& message);
  Next answer();
  Next failed(const hosted::Failure& failure, const std::string& hint = {});
  Next problem(const Error& error);
  /// Prints notes about an answer. `passes`: the passes of the answer.
  void report(const hosted::Answer& answer, const LookupPasses& passes);
  std::string why(const hosted::Answer& answer) const;
  std::string full_hint(bool taken_back) const;

  Next command(const std::string& line);
  /// `words`: the text after the command.
  Next save(const std::string& words);
  Next load(const std::string& path);
  void load_cache(const std::string& text, const std::string& path);
  void help() const;
  void system(const std::string& text);
  void stats() const;
  Next too_long();
  void print_note(const std::string& text) const;
  std::string prompt(bool first) const;

  const ChatSettings settings_;
  const Globals& globals_;
  hosted::Conversation& conversation_;
  const hosted::ChatFormat& format_;
  NativeSequence& sequence_;
  LineReader& lines_;
  Interrupts* const interrupts_;
  const bool colour_;
  Totals totals_;
  int code_ = 0;
};

}  // namespace llmc::cli
