#include "tools/llmc/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/onnx/model.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/counted.h"
#include "compiler/support/name_list.h"
#include "compiler/support/nearest.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/spellings.h"

namespace llmc::cli {
namespace {

struct Entry {
  const char* name;
  const char* summary;
  Command add;
  const char* examples;
  const char* rank_examples = nullptr;  // examples of llmc-mpi-run; nullptr: not its command
};

constexpr Entry kCommands[] = {
    {"inspect", "Show a model's files and its recognised architecture", add_inspect,
     "  llmc inspect MODEL\n"
     "  llmc inspect onnx/model.onnx --json"},
    {"plan", "Show the bytes of weights, arena and cache without compiling", add_plan,
     "  llmc plan MODEL --quant q4 --ctx 4096\n"
     "  llmc plan MODEL --target arm64 --max-ram 512M"},
    {"compile", "Compile a model to a static library, a C header and their sources", add_compile,
     "  llmc compile MODEL -o bundle\n"
     "  llmc compile MODEL --target avx2,arm64 --quant q8 -o bundles\n"
     "  llmc compile encoder.onnx --dim batch_size=1 --dim sequence_length=128"},
    {"run", "Generate text with a model or a compiled bundle", add_run,
     "  llmc run MODEL -p \"Once upon a time\" -n 64\n"
     "  llmc run MODEL --chat -f question.txt --temp 0.7\n"
     "  llmc run MODEL -p \"Yes or no? \" --grammar 'root ::= \"yes\" | \"no\"'",
     "  mpirun -n 2 llmc-mpi-run run MODEL -p \"Once upon a time\" -n 64"},
    {"chat", "Chat with a model or a compiled bundle", add_chat,
     "  llmc chat MODEL\n"
     "  llmc chat MODEL --system \"Be brief.\" --context-shift\n"
     "  llmc chat MODEL -p \"What is a compiler?\""},
    {"verify", "Compare native code with the reference interpreter and with stored hashes",
     add_verify,
     "  llmc verify MODEL\n"
     "  llmc verify bundle --model MODEL\n"
     "  llmc verify MODEL --quant f32 --short"},
    {"identity", "Check that targets, threads and chunks give the same bits of logits",
     add_identity,
     "  llmc identity MODEL\n"
     "  llmc identity MODEL --targets avx2,arm64 --quant q4,q8 --threads 1,4"},
    {"bench", "Measure prompt and generation speed and the machine's limits", add_bench,
     "  llmc bench MODEL -p 128,512 -n 64 -t 1,4\n"
     "  llmc bench MODEL --layers -o md\n"
     "  llmc bench --kernel gemm --format q4 --shape 4096x4096x1",
     "  mpirun -n 2 llmc-mpi-run bench MODEL -p 128,512 -n 64 -t 1,4"},
    {"ppl", "Measure a model's perplexity on a text", add_ppl,
     "  llmc ppl MODEL --text wiki.txt\n"
     "  llmc ppl MODEL --text wiki.txt --quant q8 --kl",
     "  mpirun -n 2 llmc-mpi-run ppl MODEL --text wiki.txt"},
    {"compare", "Compare formats of weights and cache: bytes, quality, step time", add_compare,
     "  llmc compare MODEL --text wiki.txt\n"
     "  llmc compare MODEL --text wiki.txt --quant q4,q8 --kv f16,int8\n"
     "  llmc compare MODEL --text wiki.txt --peer llama.json --svg quality.svg"},
    {"tokenize", "Convert text to token ids, or ids to text", add_tokenize,
     "  llmc tokenize MODEL \"Once upon a time\"\n"
     "  llmc tokenize MODEL --ids 1,2,3"},
    {"test-onnx", "Compare a graph's native code with ONNX test data", add_test_onnx,
     "  llmc test-onnx model.onnx model_data/\n"
     "  llmc test-onnx model.onnx test_data_set_0 --rtol 1e-4"},
    {"tune", "Find the fastest tile sizes of a target's kernels by measurement", add_tune,
     "  llmc tune\n"
     "  llmc tune --target arm64 --header arm64.h"},
    {"targets", "List targets and whether this machine can compile and run them", add_targets,
     "  llmc targets\n"
     "  llmc targets --cc clang++-18 --json"},
};

/// Names and texts of the program, which is llmc or llmc-mpi-run.
struct Program {
  explicit Program(bool on_ranks)
      : on_ranks(on_ranks),
        name(on_ranks ? "llmc-mpi-run" : "llmc"),
        summary(name + (on_ranks ? ": runs a model in shards (llmc compile --stages N), each on a "
                                   "rank of MPI"
                                 : ": compiles a language model in ONNX form to a native static "
                                   "library")),
        page(on_ranks ? "docs/distributed.md" : "docs/cli.md") {}
  bool has(const Entry& entry) const { return !on_ranks || entry.rank_examples != nullptr; }

  bool on_ranks;
  std::string name, summary;
  const char* page;
};

/// Returns the folder of a rank's shard in `folder`, the folder of all shards. If `folder` is
/// missing, returns it, so that the command reports the error.
std::string shard_folder(const std::string& folder, std::uint32_t rank) {
  const std::filesystem::path shard = std::filesystem::path(folder) / fmt::format("stage-{}", rank);
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) return folder;
  if (std::filesystem::is_directory(shard, ignored)) return shard.string();
  const bool has_shards = std::filesystem::is_directory(shard.parent_path() / "stage-0", ignored);
  throw CLI::ValidationError(fmt::format("{} has no stage-{}: {}", printable(folder), rank,
                                         has_shards ? "mpirun -n takes as many ranks as shards"
                                                    : "make it with llmc compile --stages N"));
}

/// Returns the error of an unknown command, with a suggestion; nullopt if the command is known.
std::optional<llmc::Diagnostic> unknown_command(int argc, char** argv, const Program& program) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  const std::string_view word = argv[1];
  std::vector<std::string_view> names;
  for (const Entry& entry : kCommands)
    if (program.has(entry)) names.emplace_back(entry.name);
  if (std::ranges::count(names, word) != 0) return std::nullopt;
  const std::string_view meant = llmc::nearest(word, names);
  return llmc::usage_error(fmt::format("unknown command '{}'", llmc::printable(word, 80)),
                           meant.empty() ? fmt::format("{} --help lists the commands", program.name)
                                         : fmt::format("did you mean {} {}?", program.name, meant));
}

/// Returns a function for the kinds of the options of the command `name`.
KindOfOption kinds_of_options(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
  const CLI::App* const command = found.empty() ? nullptr : found.front();
  return [command](const std::string& option_name) {
    const CLI::Option* const option =
        command == nullptr ? nullptr : command->get_option_no_throw(option_name);
    if (option == nullptr) return OptionKind::kUnknown;
    const bool has_value =
        std::min(option->get_type_size_min(), option->get_items_expected_min()) > 0;
    return has_value ? OptionKind::kValue : OptionKind::kFlag;
  };
}

/// Returns the error of an unexpected argument.
llmc::Diagnostic unexpected(const CLI::App& command, const std::string& argument, bool is_option) {
  const CLI::App* const parent = command.get_parent();
  const std::string where =
      (parent == nullptr ? "" : parent->get_name() + " ") + command.get_name();
  std::string hint = where + " --help lists the options";
  if (!is_option) {
    const CLI::Option* const model = command.get_option_no_throw("MODEL");
    if (const CLI::Option* const prompt = command.get_option_no_throw("--prompt"))
      hint = prompt->count() > 0 ? "put the prompt of -p in quotes" : "give the prompt by -p TEXT";
    if (argument.size() > 1 && argument.front() == '-')
      hint = "options go before --";
    else if (model != nullptr && model->count() > 0)
      hint = fmt::format("{} is the model already; {}",
                         llmc::printable(model->results().front(), 80), hint);
    return llmc::usage_error(fmt::format("unexpected argument '{}'", llmc::printable(argument, 80)),
                             hint);
  }
  const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  if (command.get_option_no_throw("MODEL") != nullptr) names.emplace_back("--model");
  std::vector<std::string_view> views(names.begin(), names.end());
  const auto aliases = option_aliases(command.get_name());
  for (const auto& [alias, meaning] : aliases) views.push_back(alias);
  std::string_view meant = llmc::nearest(name, views);
  for (const auto& [alias, meaning] : aliases)
    if (meant == alias) meant = meaning;
  if (!meant.empty() && name.size() > 5)  // short names resemble too many others
    hint = fmt::format("did you mean {}?", meant);
  return llmc::usage_error(
      fmt::format("{} has no option {}", where, llmc::printable(std::string(name), 80)), hint);
}

/// Returns a line that explains TOKENS, if the command has such options; otherwise an empty text.
std::string tokens_footer(const CLI::App& command) {
  const bool has_tokens = std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return option->get_type_name() == kTokensType;
  });
  return has_tokens ? "\n\nTOKENS: a number of tokens; 2k and 32K are multiples of 1024." : "";
}

/// With -v, prints how often the graphs of ONNX files were parsed.
void note_parse_counts(const Globals& globals) {
  const auto counts = llmc::importer::parse_counts();
  if (globals.verbose == 0 || counts.empty()) return;
  int times = 0;
  for (const auto& [file, count] : counts) times = std::max(times, count);
  remark(globals,
         fmt::format("parsed {}: {}", times == 1 ? "once" : fmt::format("up to {} times", times),
                     counted(counts.size(), "ONNX file")));
}

/// Formats help texts without the lists of options that an option excludes or needs, and without
/// values of negated flags.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string text = CLI::Formatter::make_option_name(option, is_positional);
    return text.substr(0, text.find("{false}"));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, std::min(text.find(" Needs:"), text.find(" Excludes:")));
  }
};

/// A message of CLI11 with two variable parts: prefix, first, middle, second, suffix.
struct Cli11Message {
  std::string_view error, prefix, middle, suffix;
  fmt::format_string<std::string, std::string> plain;  // the same in plain words
};
const Cli11Message kCli11Messages[] = {
    {"ArgumentMismatch", "", ": 1 required ", " missing", "{} needs a value: {}"},
    {"ArgumentMismatch", "", ": At Most 1 required but received ", "", "{} is given {} times"},
    {"ExcludesError", "", " excludes ", "", "{} cannot be combined with {}"},
    {"RequiresError", "", " requires ", "", "{} needs {}"},
    {"ConversionError", "Could not convert: ", " = ", "", "{} does not take the value '{}'"},
};

/// Returns the message of CLI11's error in plain words: "--text needs a value: FILE" for
/// "--text: 1 required FILE missing", and "--cores takes even or uneven, not 'x'" for
/// "--cores: x not in {even,uneven}".
std::string plain_message(const CLI::Error& error) {
  const std::string text = error.what();
  for (const Cli11Message& message : kCli11Messages) {
    const std::size_t at = text.find(message.middle);
    if (error.get_name() != message.error || at == text.npos || !text.starts_with(message.prefix) ||
        !text.ends_with(message.suffix))
      continue;
    const std::size_t begin = message.prefix.size(), second = at + message.middle.size();
    return fmt::format(message.plain, text.substr(begin, at - begin),
                       text.substr(second, text.size() - message.suffix.size() - second));
  }
  constexpr std::string_view kColon = ": ", kNotIn = " not in {";
  const std::size_t value = text.find(kColon), list = text.rfind(kNotIn);
  if (error.get_name() != "ValidationError" || list == text.npos || value >= list) return text;
  const std::size_t names = list + kNotIn.size();
  return fmt::format("{} takes {}, not '{}'", text.substr(0, value),
                     name_list(split(text.substr(names, text.size() - 1 - names)), " or "),
                     text.substr(value + kColon.size(), list - value - kColon.size()));
}

/// Refuses empty values where none can be meant: of files, programs, numbers of bytes and arguments
/// of clang.
void check_values(CLI::App& command) {
  static const std::set<std::string, std::less<>> kNeverEmpty{"FILE",  "FOLDER",  "DIR",
                                                              "BYTES", "PROGRAM", "ARG"};
  for (CLI::Option* option : command.get_options()) {
    if (kNeverEmpty.contains(option->get_type_name())) option->check(refuse_empty);
  }
}

/// Returns the exit code of the program, whose command ended with `code`: an error if stdout could
/// not be written.
int exit_code_after_output(int code) {
  if (finish_stdout() || code != 0) return code;
  return fail(llmc::file_failure(llmc::ErrorKind::kBadInput, "standard output", "cannot be written",
                                 "the disk may be full"));
}

int run_command_line(int argc, char** argv, exec::Ranks* ranks) {
  const Program program(ranks != nullptr);
  CLI::App app{program.summary, program.name};
  app.set_version_flag("--version", program.name + " " LLMC_VERSION);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.footer(
      with_docs_folder(fmt::format("{} COMMAND --help lists a command's options. Documentation: {}",
                                   program.name, program.page)));
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  // Arguments after -- are not options.
  const auto is_option = [&all](const std::string& argument) {
    const auto dashes = std::ranges::find(all, "--");
    return argument.size() > 1 && argument.front() == '-' &&
           std::find(dashes, all.end(), argument) == all.end();
  };
  app.failure_message([is_option](const CLI::App* root, const CLI::Error& error) {
    const auto commands = root->get_subcommands();  // the given ones
    const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    if (const auto own = root->remaining(); extra && !own.empty())
      return llmc::format(unexpected(*root, own.front(), is_option(own.front()))) + "\n";
    if (const auto left = root->remaining(true); extra && !commands.empty() && !left.empty())
      return llmc::format(unexpected(*commands.front(), left.front(), is_option(left.front()))) +
             "\n";
    const std::string where =
        root->get_name() + (commands.empty() ? "" : " " + commands.front()->get_name());
    const bool no_command = commands.empty() && error.get_name() == "RequiredError";
    return fmt::format(
        "llmc: error: {}\nhint: {}{} --help lists the options\n",
        no_command ? "a command is required" : llmc::printable(plain_message(error), 1000),
        error.get_name() == "ExcludesError" ? "leave out one of them; " : "", where);
  });
  Globals globals;
  globals.ranks = ranks;
  Action action;
  for (const Entry& entry : kCommands) {
    if (!program.has(entry)) continue;
    CLI::App* command = app.add_subcommand(entry.name, entry.summary);
    command->group("Commands");
    command->add_flag("--json", globals.json, "Results as JSON on stdout");
    command->add_flag("-q,--quiet", globals.quiet, "No progress, notes or warnings");
    command->add_flag("-v,--verbose", globals.verbose, "More notes; -vv: times of passes");
    command->final_callback([&action, run = entry.add(*command, globals)] { action = run; });
    check_values(*command);
    if (ranks != nullptr) {
      const auto shard = [ranks](const std::string& folder) {
        return shard_folder(folder, ranks->rank());
      };
      command->get_option("MODEL")->transform(shard, "", "");
    }
    const char* const examples = ranks != nullptr ? entry.rank_examples : entry.examples;
    command->footer(std::string("Examples:\n") + examples + tokens_footer(*command));
  }
  if (const auto wrong = unknown_command(argc, argv, program)) return fail(*wrong);
  auto spelled = spell(all, kinds_of_options(app, all.empty() ? "" : all.front()));
  if (!spelled.ok()) return fail(spelled.error());
  try {
    std::vector<std::string> backwards(spelled->arguments.rbegin(), spelled->arguments.rend());
    app.parse(std::move(backwards));  // CLI11 expects the reverse order
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? exit_code_after_output(0) : llmc::exit_code(llmc::ErrorKind::kUsage);
  }
  for (const std::string& spelling : spelled->notes) remark(globals, spelling);
  const llmc::Result<int> result = action();
  const int code = result.ok() ? *result : fail(result.error());
  note_parse_counts(globals);
  return exit_code_after_output(code);
}

}  // namespace

int run_program(int argc, char** argv, exec::Ranks* ranks) {
  // If standard streams are closed, prevent files from getting their descriptors.
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  std::signal(SIGPIPE,
              SIG_IGN);  // writes to an ended emulator or to stdout fail instead (flush_stdout)
  std::signal(SIGXFSZ, SIG_IGN);  // writes over the file size limit fail
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, exit codes of commands are lost
  llmc::install_signal_cleanup();
#ifdef __GLIBC__
  // Allocate blocks from 1 MiB on as separate mappings, so that freed memory returns to the system.
  // By default, this threshold grows up to 32 MiB, and the values of a calibration fragment the
  // heap. Setting it also fixes the trim threshold, at 128 KiB of free memory at the end of the
  // heap, so set that one to 16 MiB.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
  try {
    return run_command_line(argc, argv, ranks);
  } catch (const std::bad_alloc&) {
    std::fputs("llmc: error: out of memory\n", stderr);
  } catch (const std::exception& e) {
    print_error_line(fmt::format(
        "llmc: internal error: {}\nhint: this is a bug in llmc; please report it", e.what()));
  }
  return llmc::exit_code(llmc::ErrorKind::kInternal);
}

}  // namespace llmc::cli
