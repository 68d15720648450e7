#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "compiler/exec/ranks.h"
#include "compiler/support/result.h"

/// Shared parts of the commands of `llmc`. Results go to stdout, everything else to stderr.
namespace llmc::cli {

using Json = nlohmann::ordered_json;

/// Options of every command.
struct Globals {
  bool json = false;             // machine-readable results
  bool quiet = false;            // no progress, no notes
  int verbose = 0;               // -v: notes on what is done, -vv: times of every pass
  exec::Ranks* ranks = nullptr;  // processes of llmc-mpi-run; nullptr: llmc
};

/// Adds a command's options to `app` and returns the action to run after parsing. The action
/// returns the exit code, or an error, which run_program() prints with fail().
using Action = std::function<Result<int>()>;
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

/// Returns `text` with names of pages ("docs/cli.md") replaced by their installed paths; unchanged
/// if no pages are installed, as in a build folder.
std::string with_docs_folder(std::string text);

/// Writes a line to stderr. A failure has no effect: there is nowhere to report it.
void print_error_line(std::string_view text);
/// Prints every diagnostic to stderr and returns the exit code of the first.
int fail(const Error& error);

/// Writes to stdout. finish_stdout() returns whether this succeeded.
void print(std::string_view text);
/// Writes text of a model or a file to stdout; removes control characters if stdout is a terminal.
void print_text(std::string_view text);
void print_json(const Json& value);
/// Prints JSON on one line and flushes, for results that are produced over time.
void print_json_line(const Json& value);
/// Flushes stdout. If the reader closed the pipe, as `| head -1` does, llmc exits by SIGPIPE.
void flush_stdout();
/// Flushes stdout like flush_stdout(). Returns false if anything printed so far could not be
/// written.
bool finish_stdout();

/// Prints a line with details of a result to stderr, unless --quiet is given.
void note(const Globals& globals, std::string_view text);
/// Prints a note about an option without effect, or about a choice of llmc, with the prefix
/// "llmc: note: ".
void remark(const Globals& globals, std::string_view text);
/// Returns a function that prints each warning once with note(), even if a command reads the model
/// several times. `globals` must outlive it.
std::function<void(const Diagnostic&)> warn_once(const Globals& globals);

/// Checks, before work begins, that a file can be created at `path`, the value of `option`. Fails
/// with kBadInput if it is a folder, or its folder does not exist or is not writable. Does nothing
/// without a path.
Status check_output_file(std::string_view option, const std::string& path);

/// Returns a size in its largest unit: "1.20 MiB", "12.0 KiB", "288 B".
std::string human_bytes(std::uint64_t bytes);

/// Returns the last component of a path, also if it ends with a slash.
std::string last_component(const std::filesystem::path& path);

/// A check of options: returns what is wrong with an empty path.
inline std::string not_empty(const std::string& path) {
  return path.empty() ? "the path is empty" : "";
}

/// Returns whether stderr is a terminal.
bool stderr_is_terminal();

/// A progress line on stderr, redrawn in place and removed at the end. If stderr is not a terminal,
/// prints lines at least a minute apart instead, the first a minute after the phase began. Prints
/// nothing with --quiet.
class Progress {
 public:
  explicit Progress(const Globals& globals);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Shows `done` of `total` units of `phase`; total 0: unknown.
  void update(std::string_view phase, std::uint64_t done, std::uint64_t total);
  void clear();

 private:
  bool shown_ = false, terminal_ = false;
  bool drawn_ = false;
  std::int64_t started_ns_ = 0, last_ns_ = 0;
  std::string phase_;
};

}  // namespace llmc::cli
