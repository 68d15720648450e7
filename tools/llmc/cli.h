#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

/// What the commands of the `llmc` program share. Results go to stdout, everything else to stderr.
namespace llmc::cli {

using Json = nlohmann::ordered_json;

/// Options every command takes.
struct Globals {
  bool json = false;   // machine-readable results
  bool quiet = false;  // no progress, no notes
  int verbose = 0;     // -v: notes on what is done, -vv: times of every pass
};

/// A command adds its options to `app` and returns what to run once they are parsed: an exit code.
using Action = std::function<int()>;
using Command = Action (*)(CLI::App& app, const Globals& globals);

Action add_inspect(CLI::App& app, const Globals& globals);
Action add_plan(CLI::App& app, const Globals& globals);
Action add_compile(CLI::App& app, const Globals& globals);
Action add_run(CLI::App& app, const Globals& globals);
Action add_chat(CLI::App& app, const Globals& globals);
Action add_verify(CLI::App& app, const Globals& globals);
Action add_identity(CLI::App& app, const Globals& globals);
Action add_bench(CLI::App& app, const Globals& globals);
Action add_ppl(CLI::App& app, const Globals& globals);
Action add_compare(CLI::App& app, const Globals& globals);
Action add_tokenize(CLI::App& app, const Globals& globals);
Action add_test_onnx(CLI::App& app, const Globals& globals);
Action add_tune(CLI::App& app, const Globals& globals);
Action add_targets(CLI::App& app, const Globals& globals);

/// `text` with the folder of the installed documentation in front of pages ("docs/cli.md"). In a
/// build folder the text as it is: the pages are in the source tree.
std::string with_docs_folder(std::string text);

/// Prints every diagnostic on stderr and returns the exit code of the first.
int fail(const Error& error);

/// Writes to stdout; a full stdout is an error at exit (finish_stdout), not silence.
void print(std::string_view text);
/// What a model or a file says: for a terminal without control characters, which it would obey.
void print_text(std::string_view text);
void print_json(const Json& value);
/// The same on one line, written at once: JSON lines of results that arrive over time.
void print_json_line(const Json& value);
/// Flushes stdout. When its reader has gone, as that of `| head -1` does, the process ends as
/// others do then: by SIGPIPE, without a word.
void flush_stdout();
/// The same; false when anything else kept something from being written.
bool finish_stdout();

/// A line on stderr, unless --quiet: figures that belong to a result.
void note(const Globals& globals, std::string_view text);
/// Prints a note that begins with "llmc: note: ": an option without effect, or a choice of llmc.
void remark(const Globals& globals, std::string_view text);
/// Prints warnings like note() does, each once, however often a command reads the model.
std::function<void(const Diagnostic&)> warn_once(const Globals& globals);

/// "1.2 MiB", "288 B"
std::string human_bytes(std::uint64_t bytes);

/// Whether stderr is a terminal that takes escape codes (NO_COLOR and TERM=dumb respected for
/// colour; progress needs only the terminal).
bool stderr_is_terminal();

/// A progress line on a terminal's stderr, redrawn in place, gone when done. Nothing elsewhere.
class Progress {
 public:
  explicit Progress(const Globals& globals);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// `done` of `total` units of `phase`; total 0 means unknown.
  void update(std::string_view phase, std::uint64_t done, std::uint64_t total);
  void clear();

 private:
  bool shown_ = false;
  bool drawn_ = false;
  std::int64_t started_ns_ = 0, last_ns_ = 0;
  std::string phase_;
};

}  // namespace llmc::cli
