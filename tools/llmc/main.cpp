#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/atomic_output.h"
#include "compiler/support/nearest.h"
#include "tools/llmc/options.h"
#include "tools/llmc/spellings.h"

namespace {

using namespace llmc::cli;

struct Entry {
  const char* name;
  const char* summary;
  Command add;
};

constexpr Entry kCommands[] = {
    {"inspect", "Show what a model's files hold and what was recognised in them", add_inspect},
    {"plan", "Show weights, arena and cache bytes before anything is compiled", add_plan},
    {"compile", "Compile a model to a static library, a C header and their sources", add_compile},
    {"run", "Generate text with a model or a compiled bundle", add_run},
    {"chat", "Talk with a model or a compiled bundle", add_chat},
    {"verify", "Compare native code with the reference interpreter and with stored hashes",
     add_verify},
    {"identity", "Compare the bits of logits of targets, threads and chunks", add_identity},
    {"bench", "Measure prompt and generation speed beside the machine's limits", add_bench},
    {"ppl", "Measure how well a model predicts a text: its perplexity", add_ppl},
    {"compare", "Set formats of weights and cache side by side: bytes, quality, step time",
     add_compare},
    {"tokenize", "Turn text into token ids, or ids into text", add_tokenize},
    {"test-onnx", "Compare a graph's native code with ONNX test data", add_test_onnx},
    {"tune", "Find the best tiles of a target's kernels by trying them", add_tune},
    {"targets", "List targets and whether this machine can compile and run them", add_targets},
};

/// What is wrong with a first word that is no command: with the command it resembles.
std::optional<llmc::Diagnostic> unknown_command(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  const std::string_view word = argv[1];
  std::vector<std::string_view> names;
  for (const Entry& entry : kCommands) names.emplace_back(entry.name);
  if (std::ranges::count(names, word) != 0) return std::nullopt;
  const std::string_view meant = llmc::nearest(word, names);
  return llmc::usage_error(fmt::format("there is no command '{}'", llmc::printable(word, 80)),
                           meant.empty() ? "llmc --help lists the commands"
                                         : fmt::format("did you mean llmc {}?", meant));
}

/// Which options of the command `name` take the next argument as their value, whatever it is.
TakesValue options_with_values(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
  const CLI::App* const command = found.empty() ? nullptr : found.front();
  return [command](const std::string& option_name) {
    if (command == nullptr) return false;
    const CLI::Option* const option = command->get_option_no_throw(option_name);
    return option != nullptr &&
           std::min(option->get_type_size_min(), option->get_items_expected_min()) > 0;
  };
}

/// What is wrong with the first argument that nothing takes.
llmc::Diagnostic unexpected(const CLI::App& command, const std::string& argument, bool is_option) {
  const std::string where = command.get_parent() == nullptr ? "llmc" : "llmc " + command.get_name();
  std::string hint = where + " --help lists what is accepted";
  if (!is_option) {
    return llmc::usage_error(
        fmt::format("'{}' is one argument too many", llmc::printable(argument, 80)), hint);
  }
  const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view meant = llmc::nearest(name, views);
  if (!meant.empty() && name.size() > 5)  // shorter ones resemble whatever there is
    hint = fmt::format("did you mean {}?", meant);
  return llmc::usage_error(
      fmt::format("{} has no option {}", where, llmc::printable(std::string(name), 80)), hint);
}

/// The line that explains TOKENS, for commands that have such options.
std::string tokens_footer(const CLI::App& command) {
  const bool has_tokens = std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return option->get_type_name() == kTokensType;
  });
  return has_tokens ? "TOKENS: a number of tokens; 2k and 32K are multiples of 1024." : "";
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"llmc: compiles a language model in ONNX form to a native static library", "llmc"};
  app.set_version_flag("--version", "llmc " LLMC_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.footer(with_docs_folder(
      "llmc COMMAND --help lists a command's options. Documentation: docs/cli.md"));
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  // After -- nothing is an option.
  const auto is_option = [&all](const std::string& argument) {
    const auto dashes = std::ranges::find(all, "--");
    return argument.size() > 1 && argument.front() == '-' &&
           std::find(dashes, all.end(), argument) == all.end();
  };
  app.failure_message([is_option](const CLI::App* root, const CLI::Error& error) {
    const auto commands = root->get_subcommands();  // those that were given
    const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    if (const auto own = root->remaining(); extra && !own.empty())
      return llmc::format(unexpected(*root, own.front(), is_option(own.front()))) + "\n";
    if (const auto left = root->remaining(true); extra && !commands.empty() && !left.empty())
      return llmc::format(unexpected(*commands.front(), left.front(), is_option(left.front()))) +
             "\n";
    const std::string where = commands.empty() ? "llmc" : "llmc " + commands.front()->get_name();
    const bool no_command = commands.empty() && error.get_name() == "RequiredError";
    return fmt::format("llmc: error: {}\nhint: {} --help lists what is accepted\n",
                       no_command ? "a command is required" : llmc::printable(error.what(), 1000),
                       where);
  });
  Globals globals;
  Action action;
  for (const Entry& entry : kCommands) {
    CLI::App* command = app.add_subcommand(entry.name, entry.summary);
    command->group("Commands");
    command->footer("");
    command->add_flag("--json", globals.json, "Results as JSON on stdout");
    command->add_flag("-q,--quiet", globals.quiet, "No progress and no notes");
    command->add_flag("-v,--verbose", globals.verbose, "More notes; twice for times of every pass");
    command->final_callback([&action, run = entry.add(*command, globals)] { action = run; });
    if (const std::string tokens = tokens_footer(*command); !tokens.empty()) {
      const std::string own = command->get_footer();
      command->footer(own.empty() ? tokens : tokens + "\n" + own);
    }
  }
  if (const auto wrong = unknown_command(argc, argv)) return fail(*wrong);
  auto spelled = spell(all, options_with_values(app, all.empty() ? "" : all.front()));
  if (!spelled.ok()) return fail(spelled.error());
  try {
    std::vector<std::string> backwards(spelled->arguments.rbegin(), spelled->arguments.rend());
    app.parse(std::move(backwards));  // CLI11 takes them from the back
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : llmc::exit_code(llmc::ErrorKind::kUsage);
  }
  for (const std::string& spelling : spelled->notes) remark(globals, spelling);
  const int code = action();
  if (!finish_stdout() && code == 0) {
    return fail(llmc::file_failure(llmc::ErrorKind::kBadInput, "standard output",
                                   "could not be written", "is the disk full?"));
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // A file that is opened must not become standard output because that was closed.
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  std::signal(SIGPIPE,
              SIG_IGN);  // writes fail: to an emulator that ended, to stdout (flush_stdout)
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may grow no more
  std::signal(SIGCHLD, SIG_DFL);  // a parent that ignores it makes exit codes of commands vanish
  llmc::install_signal_cleanup();
  try {
    return run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("llmc: error: out of memory\n", stderr);
  } catch (const std::exception& e) {
    fmt::print(stderr, "llmc: internal error: {}\nhint: this is a bug in llmc; please report it\n",
               e.what());
  }
  return llmc::exit_code(llmc::ErrorKind::kInternal);
}
