#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "compiler/bench/bench.h"
#include "compiler/bench/peak.h"
#include "compiler/driver/bundle_files.h"
#include "compiler/support/statistics.h"
#include "tools/llmc/bandwidth.h"
#include "tools/llmc/bench_function.h"
#include "tools/llmc/bench_grammar.h"
#include "tools/llmc/bench_kernel.h"
#include "tools/llmc/bench_report.h"
#include "tools/llmc/huge_page_options.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {
namespace {

struct BenchCommand {
  ModelOptions model;
  KernelOptions kernel;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::string threads = "1,2", depths = "0", parallel = "1";
  std::optional<std::string> prompts, generations, sources;
  std::uint32_t repetitions = 5;
  TableFormat format = TableFormat::kText;
  bool layers = false, uncached = false;
  GrammarOptions grammar;
  FunctionOptions function;
};

/// Fails with kUsage for kernel options without --kernel, and for model options with it.
Status check_options(const CLI::App& app, bool kernel) {
  constexpr std::string_view kForKernels[] = {"--kernel", "--format", "--shape", "--count",
                                              "--plugin"};
  constexpr std::string_view kForBoth[] = {"--target",  "--opt-level",   "--cc",      "--cflag",
                                           "--threads", "--repetitions", "--output",  "--json",
                                           "--quiet",   "--emulator",    "--verbose", "--sysroot"};
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    const bool of_kernels = std::ranges::count(kForKernels, name) != 0;
    if (std::ranges::count(kForBoth, name) != 0 || of_kernels == kernel) continue;
    return kernel ? usage_error(fmt::format("{} cannot be combined with --kernel", name),
                                "a kernel is measured without a model")
                  : usage_error(fmt::format("{} needs --kernel", name), "add --kernel gemm");
  }
  if (!kernel && app.get_option("MODEL")->count() == 0)
    return usage_error("MODEL is required", "to measure a kernel without a model: --kernel gemm");
  return ok_status();
}

/// Returns the context in tokens that the longest test needs.
std::uint32_t tokens_of_tests(const bench::BenchOptions& options) {
  const std::uint32_t prompt = std::ranges::max(options.prompts.value_or(std::vector{128u}));
  const std::uint32_t generated = std::ranges::max(options.generations.value_or(std::vector{64u}));
  return std::ranges::max(options.depths) + std::max(prompt, generated + 1);
}

Result<bench::BenchOptions> bench_options(const BenchCommand& command, exec::NativeOptions native) {
  bench::BenchOptions options;
  options.native = std::move(native);
  LLMC_TRY(options.threads, parse_counts(command.threads, "--threads", plan::kMaxThreads, 1));
  if (command.prompts) {
    LLMC_TRY(options.prompts,
             parse_token_counts(*command.prompts, "--n-prompt", plan::kMaxContext));
  }
  if (command.generations) {
    LLMC_TRY(options.generations,
             parse_token_counts(*command.generations, "--n-gen", plan::kMaxContext));
  }
  if (command.sources) {
    LLMC_TRY(options.sources, parse_counts(*command.sources, "--n-source", plan::kMaxContext, 1));
    std::uint32_t& limit = options.native.compile.source_max;
    const std::uint32_t longest = std::ranges::max(options.sources);
    if (longest > std::max(limit, driver::CompileOptions::kDefaultSource)) limit = longest;
  }
  const auto none = [](const std::optional<std::vector<std::uint32_t>>& list) {
    return list && std::ranges::all_of(*list, [](std::uint32_t n) { return n == 0; });
  };
  if (none(options.prompts) && none(options.generations))
    return usage_error("-p 0 and -n 0 leave nothing to measure", "give at least one of them");
  LLMC_TRY(options.depths, parse_token_counts(command.depths, "--n-depth", plan::kMaxContext));
  LLMC_TRY(options.parallel, parse_counts(command.parallel, "--n-parallel", plan::kMaxBatch, 1));
  // A model that is compiled now gets a sufficient context. The context of a bundle is fixed.
  driver::CompileOptions& compile = options.native.compile;
  const std::uint32_t max = std::ranges::max(options.parallel);
  compile.sequences = std::max(compile.sequences, max);
  compile.batch = std::max(compile.batch, max);
  compile.ctx_needed = std::min<std::uint32_t>(tokens_of_tests(options), plan::kMaxContext);
  options.repetitions = command.repetitions;
  options.cores = command.cores;
  options.layers = command.layers;
  options.uncached = command.uncached;
  return options;
}

/// Measures the limits of the machine, before and after the tests.
class LimitSamples {
 public:
  Status take(const bench::BenchOptions& options, const bench::BenchReport& report) {
    constexpr std::uint32_t kReads = 3, kPeaks = 7;
    if (!peak_) {
      LLMC_TRY(const auto toolchain, driver::find_toolchain(options.native.compile.cc));
      LLMC_TRY(const target::Target* const target, target::find(report.target, report.opt_level));
      LLMC_TRY(peak_, bench::Peak::compile(toolchain, *target, options.native.compile.cflags));
    }
    std::set<emit::Arithmetic> used;
    for (const plan::Products& p : report.products) used.insert(bench::arithmetic_of(p.format));
    for (const std::uint32_t t : options.threads) {
      append(read_[t], measure_read_bandwidth(t, kReads, report.huge_pages.weights > 0));
      for (const emit::Arithmetic a : used) append(macs_[t][a], peak_->measure(a, t, kPeaks));
    }
    return ok_status();
  }
  MachineLimits medians() const {
    MachineLimits limits;
    for (const auto& [t, values] : read_) limits.read_bytes[t] = median(values);
    for (const auto& [t, peaks] : macs_) {
      for (const auto& [a, values] : peaks) limits.macs[t][a] = median(values);
    }
    return limits;
  }

 private:
  static void append(std::vector<double>& values, const std::vector<double>& more) {
    values.insert(values.end(), more.begin(), more.end());
  }

  std::unique_ptr<bench::Peak> peak_;
  std::map<std::uint32_t, std::vector<double>> read_;
  std::map<std::uint32_t, std::map<emit::Arithmetic, std::vector<double>>> macs_;
};

/// Measures the cost of a grammar for one number of tokens and threads.
Result<int> grammar(const BenchCommand& command, const CLI::App& app, const Globals& globals) {
  for (const char* const other : {"--n-prompt", "--n-depth", "--layers"}) {
    if (app.get_option(other)->count() > 0)
      return usage_error(fmt::format("{} cannot be combined with a grammar", other),
                         "grammar benchmarks take -n, -t and -r");
  }
  GrammarBench options{.cores = command.cores,
                       .repetitions = command.repetitions,
                       .format = globals.json ? TableFormat::kJson : command.format};
  const auto one = [&](const char* option, const std::string& text, std::uint32_t& value,
                       std::int64_t max) -> Status {
    if (app.get_option(option)->count() == 0) return ok_status();
    LLMC_TRY(const auto values, parse_counts(text, option, max));
    if (values.size() != 1 || values[0] == 0)
      return usage_error(fmt::format("{} takes one number with a grammar", option), "such as 64");
    value = values[0];
    return ok_status();
  };
  LLMC_RETURN_IF_ERROR(
      one("--n-gen", command.generations.value_or(""), options.tokens, plan::kMaxContext));
  LLMC_RETURN_IF_ERROR(one("--threads", command.threads, options.threads, plan::kMaxThreads));
  return bench_grammar(command.grammar, command.model, options, globals);
}

/// Measures a graph that is compiled as a function and returns the exit code; nullopt for a
/// decoder.
Result<std::optional<int>> measure_function(const BenchCommand& command, exec::NativeOptions native,
                                            const CLI::App& app, const Globals& globals) {
  native.compile.import.on_warning = warn_once(globals);
  LLMC_TRY(auto source, function_to_run(command.function, native.compile));
  if (!source) return std::optional<int>();
  FunctionBench options{.format = command.format, .layers = command.layers};
  if (app.get_option("--repetitions")->count() > 0) options.repetitions = command.repetitions;
  if (app.get_option("--threads")->count() > 0) {
    LLMC_TRY(options.threads, parse_counts(command.threads, "--threads", plan::kMaxThreads, 1));
  }
  LLMC_TRY(std::optional<int> code,
           bench_function(app, command.model, native, *std::move(source), options, globals));
  return code;
}

Result<int> bench(const BenchCommand& command, const CLI::App& app, const Globals& globals) {
  LLMC_TRY(auto native, native_options(command.model, globals));
  LLMC_TRY(const auto code, measure_function(command, native, app, globals));
  if (code) return *code;
  LLMC_TRY(auto options, bench_options(command, std::move(native)));
  Progress line(globals);
  LimitSamples samples;
  options.sample = [&](const bench::BenchReport& about) {
    line.update("limits of the machine", 0, 0);
    return samples.take(options, about);
  };
  LLMC_TRY(const auto report, bench::run_bench(options, progress_of(line)));
  line.clear();
  const MachineLimits limits = samples.medians();

  const bool bundle = driver::looks_like_bundle(command.model.model);
  const std::string format =
      bundle ? report.quant : format_text(command.model.budget, command.model.quant);
  if (options.native.compile.quant_given)
    note_kept_codes(globals, report.rounding, format, options.native.compile.requantize);
  const BenchTables tables{.report = report,
                           .limits = limits,
                           .model = command.model.model,
                           .quant = format,
                           .repetitions = command.repetitions,
                           .layers = command.layers};
  if (globals.json || command.format == TableFormat::kJson) {
    print_json(tables.json());
    return 0;
  }
  print(tables.text(command.format));
  note(globals, tables.explanation());
  return 0;
}

}  // namespace

Action add_bench(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<BenchCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  app.get_option("MODEL")->required(false);
  add_kernel_options(app, command->kernel);
  add_grammar_options(app, command->grammar);
  add_function_options(app, command->function);
  const auto add_list = [&](const char* names, auto& value, const char* text) {
    return app.add_option(names, value, text)->type_name("LIST");
  };
  add_list("-p,--n-prompt", command->prompts,
           "Prompt tests, lengths in tokens, 0: none (default: 128)");
  add_list("-n,--n-gen", command->generations,
           "Generation tests, lengths in tokens, 0: none (default: 64)");
  add_list("--n-source", command->sources,
           "Encoder-decoder: sources to encode, lengths in tokens; the other tests attend to "
           "the last one (default: 128)");
  add_list("-d,--n-depth", command->depths,
           "Context depths: tokens in the cache before a test (default: 0)");
  add_list("--n-parallel", command->parallel,
           "Batch sizes: sequences decoded per step in generation tests (default: 1)");
  add_whole_number(app, "-r,--repetitions", command->repetitions, 1, 1000,
                   "Runs per test (default: 5; functions: 20)");
  app.add_option("-t,--threads", command->threads, "Numbers of threads (default: 1,2; kernels: 1)")
      ->type_name("LIST");
  app.add_flag("--no-cache", command->uncached,
               "Also run generation tests without the KV cache: all tokens in each step");
  app.add_flag("--layers", command->layers,
               "Also print the time of each stage, and of tokens by position");
  add_cores(app, command->cores);
  add_huge_pages(app, command->model.huge_pages.when);
  add_table_format(app, command->format);
  return [command, &app, &globals]() -> Result<int> {
    const bool kernel = !command->kernel.kernel.empty();
    LLMC_RETURN_IF_ERROR(check_options(app, kernel));
    if (globals.ranks != nullptr && (kernel || command->layers || command->grammar.given()))
      return usage_error("--kernel, --layers and grammars are not measured on ranks",
                         "measure them by llmc bench");
    if (command->grammar.given()) return grammar(*command, app, globals);
    if (!kernel) return bench(*command, app, globals);
    KernelRun run{.repetitions = command->repetitions,
                  .format = globals.json ? TableFormat::kJson : command->format};
    if (app.get_option("--opt-level")->count() > 0) run.levels = command->model.opt_level;
    if (app.get_option("--threads")->count() > 0) run.threads = command->threads;
    return bench_kernel(command->kernel, command->model, run, globals);
  };
}

}  // namespace llmc::cli
