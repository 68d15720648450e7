#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "compiler/support/atomic_output.h"
#include "tools/llmc/cli.h"

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
    {"verify", "Compare native code with the reference interpreter and with stored hashes",
     add_verify},
    {"bench", "Measure prompt and generation speed beside the machine's limits", add_bench},
    {"ppl", "Perplexity of a text under any --quant", add_ppl},
    {"tokenize", "Turn text into token ids, or ids into text", add_tokenize},
    {"targets", "List targets and whether this machine can compile and run them", add_targets},
};

int run_command_line(int argc, char** argv) {
  CLI::App app{"llmc: compiles a language model in ONNX form to a native static library", "llmc"};
  app.set_version_flag("--version", "llmc " LLMC_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return fmt::format("llmc: error: {}\nhint: {} --help lists what is accepted\n", error.what(),
                       failed->get_parent() ? "llmc " + failed->get_name() : "llmc");
  });
  Globals globals;
  Action action;
  for (const Entry& entry : kCommands) {
    CLI::App* command = app.add_subcommand(entry.name, entry.summary);
    command->add_flag("--json", globals.json, "Results as JSON on stdout");
    command->add_flag("-q,--quiet", globals.quiet, "No progress and no notes");
    command->add_flag("-v,--verbose", globals.verbose, "More notes; twice for times of every pass");
    command->final_callback([&action, run = entry.add(*command, globals)] { action = run; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : llmc::exit_code(llmc::ErrorKind::kUsage);
  }
  const int code = action();
  if (!finish_stdout() && code == 0) {
    return fail(llmc::Diagnostic{.kind = llmc::ErrorKind::kBadInput,
                                 .file = "standard output",
                                 .node = {},
                                 .op = {},
                                 .message = "could not be written",
                                 .hint = "is the disk full or the reader gone?"});
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, reported at the end
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may grow no more
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
