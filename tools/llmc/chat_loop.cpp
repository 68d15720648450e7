#include "tools/llmc/chat_loop.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "compiler/support/counted.h"
#include "compiler/support/file.h"
#include "compiler/support/mapped_file.h"
#include "runtime/hosted/tokenizer/utf8.h"
#include "tools/llmc/chat_format.h"

namespace llmc::cli {
namespace {

constexpr std::uint64_t kMaxSavedBytes = std::uint64_t{256} << 20;
constexpr std::string_view kCacheOption = "--cache";
constexpr const char* kCacheSuffix = ".cache";
constexpr std::string_view kQuotes = "\"\"\"";

constexpr const char* kHelp =
    "/help                print this list\n"
    "/reset               forget the conversation, keep the system prompt\n"
    "/system TEXT         set the system prompt; without TEXT: print it; \"\": remove it\n"
    "/save FILE           write the conversation to a file\n"
    "/save --cache FILE   write the conversation and its KV cache to a file\n"
    "/load FILE           continue a saved conversation\n"
    "/stats               print tokens and speed\n"
    "/quit                exit, like Ctrl-D\n"
    "A line that ends with \\ continues on the next line, and so does text between \"\"\" and "
    "\"\"\".\n"
    "Write // for a message that starts with /. Ctrl-C stops an answer.\n";

/// Splits a command line into command and text: "/save  name " gives "save" and "name".
std::pair<std::string, std::string> split_command(const std::string& line) {
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::size_t begin = std::min(line.find_first_not_of(" \t", end), line.size());
  std::string rest = line.substr(begin);
  rest.erase(rest.find_last_not_of(" \t") + 1);
  return {line.substr(1, end - 1), std::move(rest)};
}

double rate(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

ChatLoop::ChatLoop(ChatSettings settings, const Globals& globals,
                   hosted::Conversation& conversation, const hosted::ChatFormat& format,
                   NativeSequence& sequence, LineReader& lines, Interrupts* interrupts)
    : settings_(std::move(settings)),
      globals_(globals),
      conversation_(conversation),
      format_(format),
      sequence_(sequence),
      lines_(lines),
      interrupts_(interrupts),
      colour_(interrupts != nullptr && ::isatty(STDOUT_FILENO) == 1 && !globals.json &&
              (::getenv("NO_COLOR") == nullptr || *::getenv("NO_COLOR") == '\0')) {}

void ChatLoop::print_note(const std::string& text) const {
  if (globals_.quiet) return;
  note(globals_, colour_ && stderr_is_terminal() ? "\x1b[2m" + text + "\x1b[0m" : text);
}

std::string ChatLoop::prompt(bool first) const {
  const std::string sign = first ? ">" : ".";
  // The blank comes last, because libedit omits an escape sequence at the end of a prompt.
  return (colour_ ? "\x1b[1;32m" + sign + "\x1b[0m" : sign) + " ";
}

void ChatLoop::greet() const {
  std::string text = fmt::format("{}, {}, a context of {}", printable(settings_.model),
                                 settings_.target, counted(sequence_.context(), "token"));
  if (!settings_.no_template.empty()) text += "\n" + settings_.no_template;
  if (interrupts_ != nullptr) text += "\n/help lists the commands; Ctrl-D exits";
  print_note(text);
}

int ChatLoop::run() {
  greet();
  std::string message;
  // Stop if standard output fails, for example because the disk is full; run_program() reports it.
  // If the reader closed the pipe, finish_stdout() ends the process.
  while (finish_stdout() && read_message(message) && say(message) == Next::kGoOn) continue;
  return code_;
}

int ChatLoop::run_once(const std::string& text) {
  if (!settings_.no_template.empty()) print_note(settings_.no_template);
  conversation_.add("user", text);
  answer();
  return code_;
}

LineReader::Event ChatLoop::read_line(bool first, std::string& line) {
  const LineReader::Event event = lines_.read(prompt(first), line);
  // Templates and JSON need valid UTF-8.
  if (event == LineReader::Event::kLine) line = hosted::take_whole_utf8(line, true);
  return event;
}

bool ChatLoop::read_message(std::string& message) {
  message.clear();
  bool quoted = false, first = true, warned = false;
  for (;;) {
    std::string line;
    const LineReader::Event event = read_line(first, line);
    if (event == LineReader::Event::kEnd) return !first && !message.empty();
    const bool discarded =
        event == LineReader::Event::kInterrupt || event == LineReader::Event::kDiscarded;
    const bool fits =
        event == LineReader::Event::kLine && message.size() + line.size() < LineReader::kMaxBytes;
    if (!discarded && !fits && too_long() == Next::kLeave) return false;
    if (discarded) {
      // The second Ctrl-C in a row at an empty prompt exits.
      const bool empty = first && event == LineReader::Event::kInterrupt;
      if (warned && empty) return false;
      warned = empty;
      if (empty) print_note("Ctrl-C again or Ctrl-D exits");
    }
    if (!fits) {
      message.clear();
      quoted = false;
      first = true;
      continue;
    }
    warned = false;
    if (first && line.starts_with(kQuotes)) {
      quoted = true;
      line.erase(0, kQuotes.size());
      first = false;
      if (line.empty()) continue;  // the message begins in the next line
    }
    first = false;
    if (quoted) {
      const bool ends = line.ends_with(kQuotes);
      if (ends) line.erase(line.size() - kQuotes.size());
      message += line;
      if (!ends) {
        message += '\n';
        continue;
      }
    } else if (line.ends_with('\\')) {
      line.back() = '\n';
      message += line;
      continue;
    } else {
      message += line;
    }
    if (interrupts_ != nullptr && message.find('\n') == message.npos) lines_.remember(message);
    return true;
  }
}

ChatLoop::Next ChatLoop::say(const std::string& message) {
  const bool spoken = message.starts_with("//");
  if (message.starts_with('/') && !spoken && message.find('\n') == message.npos)
    return command(message);
  std::string text = message.substr(spoken ? 1 : 0);
  const auto& messages = conversation_.messages();
  if (text.empty()) {
    // Without a template an empty message continues the text.
    const bool goes_on = !format_.has_template() && !messages.empty();
    if (!goes_on) return Next::kGoOn;
    if (!messages.back().ending.empty()) {
      print_note("the text has ended: the next input starts a new one");
      return Next::kGoOn;
    }
    return answer();
  }
  if (!format_.has_template() && !messages.empty() && messages.back().ending.empty()) {
    // Separate the words of both texts with a blank.
    const std::string& before = messages.back().content;
    const bool apart =
        before.empty() || std::string_view(" \n\t").find(before.back()) != std::string_view::npos;
    const bool joins =
        std::string_view(" \t\n.,;:!?)'").find(text.front()) != std::string_view::npos;
    if (!apart && !joins) text.insert(0, " ");
  }
  conversation_.add("user", std::move(text));
  return answer();
}

ChatLoop::Next ChatLoop::answer() {
  hosted::AnswerOptions options;
  options.max_tokens = settings_.max_tokens;
  options.stop_texts = settings_.stop_texts;
  options.forgets_oldest = settings_.forgets_oldest;
  if (interrupts_ != nullptr) {
    interrupts_->take();
    options.cancel = &interrupts_->flag();
  }
  const std::size_t before = conversation_.messages().size();
  bool leading = format_.has_template();  // drop blanks before the first word of the answer
  if (!globals_.json) {
    options.on_text = [&](std::string_view piece) {
      std::string text(piece);
      if (leading) text.erase(0, text.find_first_not_of(" \n\t"));
      leading = leading && text.empty();
      print_text(text);
      return finish_stdout();
    };
  }
  const LookupPasses passes = sequence_.passes();
  const auto result = conversation_.answer(options);
  if (interrupts_ != nullptr) interrupts_->take();
  if (!globals_.json && result) print("\n");
  std::fflush(stdout);  // keep the order with notes if both streams have the same destination
  if (!result || !result->begun) {
    if (before > 0 && conversation_.messages().back().role == "user") conversation_.drop_last();
    if (!result) return failed(result.failure());
    print_note("cancelled; your message was removed");
    return Next::kGoOn;
  }
  report(*result, sequence_.passes().since(passes));
  return Next::kGoOn;
}

std::string ChatLoop::full_hint(bool taken_back) const {
  // If no earlier message can be dropped, the message itself is too long.
  const bool alone = std::ranges::all_of(
      conversation_.messages(), [](const auto& message) { return message.role == "system"; });
  if (taken_back && (alone || settings_.forgets_oldest))
    return "write a shorter message, or compile with a larger --ctx";
  return fmt::format("use /reset to forget the conversation{}, or compile with a larger --ctx",
                     settings_.forgets_oldest ? "" : ", --context-shift to drop old messages");
}

std::string ChatLoop::why(const hosted::Answer& answer) const {
  switch (answer.why) {
    case hosted::Stopped::kLength:
      return "; stopped at -n";
    case hosted::Stopped::kContext:
      return fmt::format("\nthe context of {} is full: {}", counted(sequence_.context(), "token"),
                         full_hint(false));
    case hosted::Stopped::kCancelled:
      return "; stopped";
    default:
      return {};
  }
}

void ChatLoop::report(const hosted::Answer& answer, const LookupPasses& passes) {
  ++totals_.answers;
  totals_.tokens += answer.tokens;
  totals_.seconds += answer.seconds;
  totals_.prompt_tokens += answer.prompt_tokens;
  totals_.kept_tokens += answer.kept_tokens;
  totals_.prompt_seconds += answer.prompt_seconds;
  if (globals_.json) {
    Json json{{"text", answer.text},
              {"stopped", stop_name(answer.why)},
              {"tokens", answer.tokens},
              {"prompt_tokens", answer.prompt_tokens},
              {"kept_tokens", answer.kept_tokens},
              {"context_tokens", conversation_.tokens()},
              {"forgotten_messages", answer.forgotten},
              {"prompt_tokens_per_second", rate(answer.prompt_tokens, answer.prompt_seconds)},
              {"tokens_per_second", rate(answer.tokens, answer.seconds)}};
    if (passes.count > 0) json["tokens_per_pass"] = passes.tokens_per_pass();
    print_json_line(json);
    return;
  }
  print_note(fmt::format(
      "{}, {:.0f} tokens/s{}; prompt: {}, {:.0f} tokens/s, {} reused from the cache{}",
      counted(answer.tokens, "token"), rate(answer.tokens, answer.seconds),
      lookup_text(passes.tokens_per_pass(), settings_.lookup),
      counted(answer.prompt_tokens, "new token"), rate(answer.prompt_tokens, answer.prompt_seconds),
      answer.kept_tokens, why(answer)));
  if (answer.forgotten > 0)
    print_note("the context was full: dropped " + counted(answer.forgotten, "old message"));
}

ChatLoop::Next ChatLoop::problem(const Error& error) {
  const int code = fail(error);
  if (interrupts_ != nullptr) return Next::kGoOn;
  code_ = code;
  return Next::kLeave;
}

ChatLoop::Next ChatLoop::failed(const hosted::Failure& failure, const std::string& hint) {
  if (const auto error = sequence_.take_error()) return problem(*error);
  const bool full = failure.status == LLMC_ERROR_CONTEXT_FULL;
  const bool unknown_id = failure.status == LLMC_ERROR_TOKEN && hint.empty();
  return problem(llmc::failure(ErrorKind::kBadInput, printable(failure.message, 1000),
                               full         ? full_hint(true)
                               : unknown_id ? settings_.other_tokenizer
                                            : hint));
}

ChatLoop::Next ChatLoop::command(const std::string& line) {
  const auto [name, rest] = split_command(line);
  const std::string_view alone[] = {"quit", "exit", "help", "reset", "stats"};
  if (!rest.empty() && std::ranges::count(alone, name) != 0)
    return problem(usage_error(
        fmt::format("/{} takes no argument, but '{}' follows", name, printable(rest, 40)),
        "/help lists the commands"));
  if (name == "quit" || name == "exit") return Next::kLeave;
  if (name == "help") {
    help();
  } else if (name == "reset") {
    if (const llmc_status bad = conversation_.reset()) return failed({bad, llmc_status_text(bad)});
    print_note("the conversation is forgotten");
  } else if (name == "stats") {
    stats();
  } else if (name == "system") {
    system(rest);
  } else if (name == "save" || name == "load") {
    if (rest.empty())
      return problem(usage_error("/" + name + " needs a file", "write /" + name + " FILE"));
    return name == "save" ? save(rest) : load(rest);
  } else {
    return problem(usage_error(fmt::format("unknown command /{}", printable(name, 40)),
                               "/help lists the commands; write // for text that starts with /"));
  }
  std::fflush(stdout);
  return Next::kGoOn;
}

ChatLoop::Next ChatLoop::save(const std::string& words) {
  // Trailing blanks are already removed, so without a name only the option remains.
  const std::size_t word = std::min(words.find_first_of(" \t"), words.size());
  const bool with_cache = std::string_view(words).substr(0, word) == kCacheOption;
  const std::string path =
      with_cache ? words.substr(std::min(words.find_first_not_of(" \t", word), words.size()))
                 : words;
  if (path.empty()) {
    return problem(usage_error("/save --cache needs a file",
                               "write /save --cache FILE, or ./--cache for a file of that name"));
  }
  std::string what = counted(conversation_.messages().size(), "message");
  std::string text;
  if (with_cache) {
    const auto cache = conversation_.save_cache();
    if (!cache) return failed({cache.failure().status, "the cache: " + cache.failure().message});
    const std::string file = path + kCacheSuffix;
    if (const Status written = replace_file(file, *cache); !written.ok())
      return problem(written.error());
    text = conversation_.save(std::filesystem::path(file).filename().string(), *cache);
    what += fmt::format(" and {} of cache", human_bytes(cache->size()));
  } else {
    text = conversation_.save();
  }
  if (const Status written = replace_file(path, text); !written.ok())
    return problem(written.error());
  print_note(fmt::format("saved {} to {}", what, printable(path)));
  return Next::kGoOn;
}

ChatLoop::Next ChatLoop::load(const std::string& path) {
  const auto text = read_file(path, kMaxSavedBytes);
  if (!text.ok()) return problem(text.error());
  if (const auto bad = conversation_.load(*text, path))
    return failed(*bad, "/load needs a file written by /save");
  print_note(fmt::format("loaded {} from {}", counted(conversation_.messages().size(), "message"),
                         printable(path)));
  load_cache(*text, path);
  return Next::kGoOn;
}

/// Loads a saved cache. This only saves time: without it, the next answer prefills the tokens.
void ChatLoop::load_cache(const std::string& text, const std::string& path) {
  const std::filesystem::path name =
      std::filesystem::path(hosted::Conversation::cache_name(text)).filename();
  if (name.empty()) return;
  const std::filesystem::path file = std::filesystem::path(path).parent_path() / name;
  const auto not_taken = [&](const std::string& why) {
    print_note(
        fmt::format("the cache in {} cannot be used: {}; the next answer prefills the tokens",
                    printable(file.string()), printable(why)));
  };
  const auto cache = MappedFile::open(file);
  if (!cache.ok()) return not_taken(cache.error().first().message);
  const auto bytes = (*cache)->bytes();
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto bad = conversation_.load_cache(text, content)) {
    // Prefer the session's message, if there is one, to the status text.
    const auto error = sequence_.take_error();
    return not_taken(error ? error->first().message : bad->message);
  }
  print_note("the cache has " + counted(conversation_.tokens(), "token"));
}

ChatLoop::Next ChatLoop::too_long() {
  return problem(
      failure(ErrorKind::kBadInput,
              fmt::format("the message is longer than {}", human_bytes(LineReader::kMaxBytes)),
              "no context is that long: split the text, with /reset between the parts"));
}

void ChatLoop::help() const {
  if (globals_.json) return print_json_line({{"help", kHelp}});
  print(kHelp);
}

void ChatLoop::system(const std::string& text) {
  if (!text.empty()) {
    conversation_.set_system(text == "\"\"" ? std::string() : text);
    print_note("the system prompt applies from the next answer on");
    return;
  }
  const auto& messages = conversation_.messages();
  const bool there = !messages.empty() && messages.front().role == "system";
  if (globals_.json) return print_json_line({{"system", there ? messages.front().content : ""}});
  print_text(there ? messages.front().content + "\n" : "no system prompt\n");
}

void ChatLoop::stats() const {
  const double per_pass = sequence_.passes().tokens_per_pass();
  if (globals_.json) {
    Json stats{{"context_tokens", conversation_.tokens()},
               {"context", sequence_.context()},
               {"messages", conversation_.messages().size()},
               {"answers", totals_.answers},
               {"tokens", totals_.tokens},
               {"tokens_per_second", rate(totals_.tokens, totals_.seconds)},
               {"prompt_tokens", totals_.prompt_tokens},
               {"prompt_tokens_per_second", rate(totals_.prompt_tokens, totals_.prompt_seconds)},
               {"kept_tokens", totals_.kept_tokens}};
    if (per_pass > 0) stats["tokens_per_pass"] = per_pass;
    return print_json_line({{"stats", std::move(stats)}});
  }
  print(fmt::format("context       {} of {}\n", conversation_.tokens(),
                    counted(sequence_.context(), "token")));
  print(fmt::format("messages      {}\n", conversation_.messages().size()));
  print(fmt::format("answers       {}: {}, {:.0f} tokens/s{}\n", totals_.answers,
                    counted(totals_.tokens, "token"), rate(totals_.tokens, totals_.seconds),
                    lookup_text(per_pass, settings_.lookup)));
  print(fmt::format("prompts       {}, {:.0f} tokens/s; {} reused from the cache\n",
                    counted(totals_.prompt_tokens, "new token"),
                    rate(totals_.prompt_tokens, totals_.prompt_seconds), totals_.kept_tokens));
}

}  // namespace llmc::cli
