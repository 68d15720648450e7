#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "compiler/driver/bench.h"
#include "compiler/driver/bundle_files.h"
#include "tools/llmc/bandwidth.h"
#include "tools/llmc/bench_kernel.h"
#include "tools/llmc/options.h"

namespace llmc::cli {
namespace {

struct BenchCommand {
  ModelOptions model;
  KernelOptions kernel;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::string threads = "1,2";
  std::uint32_t prompt = 0, generation = 0;
  CLI::Option *prompt_option = nullptr, *generation_option = nullptr;
  std::uint32_t repetitions = 5;
  std::string format = "md";
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  if (n == 0) return 0;
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string test_name(const driver::BenchResult& r) {
  return fmt::format("{}{}", r.test == driver::BenchResult::Test::kPrompt ? "pp" : "tg", r.tokens);
}

/// Bytes of weights per second that generation read, as a part of what the machine can read.
/// A prompt reads the weights once a chunk and is bound by arithmetic: no such ratio.
double limit_ratio(const driver::BenchResult& r, const driver::BenchReport& report,
                   const std::map<std::uint32_t, double>& bandwidth) {
  if (r.test != driver::BenchResult::Test::kGeneration) return 0;
  const double limit = bandwidth.at(r.threads);
  if (limit <= 0) return 0;
  return r.tokens_per_second * static_cast<double>(report.weight_bytes_per_token) / limit;
}

/// kUsage when an option was given that belongs to what is not measured: to a model or to a kernel.
Status check_options(const CLI::App& app, bool kernel) {
  constexpr std::string_view kForKernels[] = {"--kernel", "--format", "--shape", "--count",
                                              "--plugin"};
  constexpr std::string_view kForBoth[] = {"--target",  "--opt-level",   "--cc",     "--cflag",
                                           "--threads", "--repetitions", "--output", "--json",
                                           "--quiet",   "--emulator",    "--verbose"};
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    const bool of_kernels = std::ranges::count(kForKernels, name) != 0;
    if (std::ranges::count(kForBoth, name) != 0 || of_kernels == kernel) continue;
    return kernel ? usage_error(fmt::format("{} does not go with --kernel", name),
                                "a kernel is measured without a model")
                  : usage_error(fmt::format("{} needs --kernel", name), "add --kernel gemm");
  }
  if (!kernel && app.get_option("MODEL")->count() == 0)
    return usage_error("MODEL is required", "or a kernel without a model: --kernel gemm");
  return ok_status();
}

int bench(const BenchCommand& command, const Globals& globals) {
  const auto native = native_options(command.model);
  if (!native.ok()) return fail(native.error());
  const auto threads = parse_numbers(command.threads, "--threads", plan::kMaxThreads);
  if (!threads.ok()) return fail(threads.error());

  const bool no_prompt = command.prompt_option->count() > 0 && command.prompt == 0;
  const bool no_generation = command.generation_option->count() > 0 && command.generation == 0;
  if (no_prompt && no_generation)
    return fail(usage_error("-p 0 and -n 0 leave nothing to measure", "give at least one of them"));

  driver::BenchOptions options;
  options.native = *native;
  options.threads.assign(threads->begin(), threads->end());
  if (command.prompt_option->count() > 0) options.prompt = command.prompt;
  if (command.generation_option->count() > 0) options.generation = command.generation;
  options.repetitions = command.repetitions;
  options.cores = command.cores;
  Progress line(globals);
  // Before and after the model's runs, in the same minute: shared machines drift.
  std::map<std::uint32_t, std::vector<double>> samples;
  const auto sample = [&] {
    line.update("read bandwidth", 0, 0);
    for (const std::uint32_t t : options.threads) {
      const auto measured = measure_read_bandwidth(t, 3);
      samples[t].insert(samples[t].end(), measured.begin(), measured.end());
    }
  };
  for (const std::uint32_t t : options.threads) {
    if (t == 0) {
      return fail(
          usage_error("--threads 0 is not a number of threads", "write 1 or more, such as -t 1,2"));
    }
  }
  sample();
  const auto report = driver::run_bench(options, progress_of(line));
  if (report.ok()) sample();
  line.clear();
  if (!report.ok()) return fail(report.error());
  std::map<std::uint32_t, double> bandwidth;
  for (const auto& [t, values] : samples) bandwidth[t] = median(values);

  // What a bundle was compiled with is not known here.
  const bool bundle = driver::looks_like_bundle(command.model.model);
  const std::string quant = bundle ? "" : command.model.quant;
  if (globals.json || command.format == "json") {
    Json rows = Json::array();
    for (const driver::BenchResult& r : report->results) {
      Json row{{"test", test_name(r)},
               {"threads", r.threads},
               {"tokens", r.tokens},
               {"tokens_per_second", r.tokens_per_second},
               {"deviation", r.deviation},
               {"seconds", r.seconds},
               {"read_bandwidth_bytes_per_second", bandwidth[r.threads]}};
      if (r.test == driver::BenchResult::Test::kGeneration)
        row["ratio_to_read_bandwidth"] = limit_ratio(r, *report, bandwidth);
      rows.push_back(std::move(row));
    }
    print_json(Json{{"model", command.model.model},
                    {"target", report->target},
                    {"quant", quant.empty() ? Json(nullptr) : Json(quant)},
                    {"weight_bytes", report->weight_bytes},
                    {"weight_bytes_per_token", report->weight_bytes_per_token},
                    {"results", rows}});
    return 0;
  }
  print("| test | threads | tokens/s | +- | GB/s of weights | read GB/s | of the limit |\n");
  print("|---|---:|---:|---:|---:|---:|---:|\n");
  for (const driver::BenchResult& r : report->results) {
    const bool generation = r.test == driver::BenchResult::Test::kGeneration;
    const double rate = r.tokens_per_second * static_cast<double>(report->weight_bytes_per_token);
    print(fmt::format(
        "| {} | {} | {:.1f} | {:.1f} | {} | {:.1f} | {} |\n", test_name(r), r.threads,
        r.tokens_per_second, r.deviation, generation ? fmt::format("{:.2f}", rate * 1e-9) : "",
        bandwidth[r.threads] * 1e-9,
        generation ? fmt::format("{:.0f} %", 100 * limit_ratio(r, *report, bandwidth)) : ""));
  }
  note(
      globals,
      fmt::format("{} ({}{}): {} of weights, {} read per token\n"
                  "medians of {} runs; read bandwidth: median of {} passes over 256 MiB, half of "
                  "them before and half after\nweights that fit the caches can be read faster than "
                  "memory: more than 100 % then",
                  command.model.model, report->target, quant.empty() ? "" : ", " + quant,
                  human_bytes(report->weight_bytes), human_bytes(report->weight_bytes_per_token),
                  command.repetitions, samples.begin()->second.size()));
  return 0;
}

}  // namespace

Action add_bench(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<BenchCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  app.get_option("MODEL")->required(false);
  add_kernel_options(app, command->kernel);
  command->prompt_option =
      add_whole_number(app, "-p,--n-prompt", command->prompt, 0, plan::kMaxContext,
                       "Tokens of the prompt test, 0 for none (default: 128)");
  command->generation_option =
      add_whole_number(app, "-n,--n-gen", command->generation, 0, plan::kMaxContext,
                       "Tokens of the generation test, 0 for none (default: 64)");
  add_whole_number(app, "-r,--repetitions", command->repetitions, 1, 1000,
                   "Runs of each test (default: 5)");
  app.add_option("-t,--threads", command->threads,
                 "Numbers of threads to try (default: 1,2; of a kernel: 1)")
      ->type_name("LIST");
  add_cores(app, command->cores);
  app.add_option("-o,--output", command->format, "md or json (default: md)")
      ->check(CLI::IsMember({"md", "json"}))
      ->type_name("FORMAT");
  return [command, &app, &globals] {
    const bool kernel = !command->kernel.kernel.empty();
    if (const Status usable = check_options(app, kernel); !usable.ok()) return fail(usable.error());
    if (!kernel) return bench(*command, globals);
    KernelRun run{.repetitions = command->repetitions,
                  .json = globals.json || command->format == "json"};
    if (app.get_option("--opt-level")->count() > 0) run.levels = command->model.opt_level;
    if (app.get_option("--threads")->count() > 0) run.threads = command->threads;
    return bench_kernel(command->kernel, command->model, run, globals);
  };
}

}  // namespace llmc::cli
