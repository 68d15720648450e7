#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/support/file.h"
#include "passes/assign_weight_formats.h"
#include "passes/pipeline.h"
#include "tools/llmc-opt/evaluate.h"
#include "tools/llmc-opt/stand_in.h"

/// llmc-opt: reads a graph in text form, runs passes, prints the result (docs/ir-text.md).
namespace {

using namespace llmc;

struct Options {
  std::string input = "-", output = "-";
  std::vector<std::string> pass_names;
  bool pipeline = false, list = false, stand_in = false;
  bool verify_each = false, time_passes = false, evaluate = false, explain_formats = false;
  std::string dump_folder;
  std::string quant;
  bool requantize = false;
  std::vector<std::string> sizes;
  std::uint64_t seed = 1;
};

int fail(const Error& error) {
  for (const Diagnostic& d : error.diagnostics()) fmt::print(stderr, "{}\n", format(d));
  return exit_code(error.first().kind);
}

const char* graphs_text(passes::PassGraphs graphs) {
  return graphs == passes::PassGraphs::kDecoders ? " (decoders)"
         : graphs == passes::PassGraphs::kPlain  ? " (plain graphs)"
                                                 : "";
}

void list_passes() {
  fmt::print("pipeline, in order:\n");
  for (const auto& entry : passes::pipeline())
    fmt::print("  {:<22} {}{}\n", entry.name, entry.why, graphs_text(entry.graphs));
  fmt::print("all passes:\n");
  for (const auto& entry : passes::registry())
    fmt::print("  {}{}\n", entry.name, graphs_text(entry.graphs));
}

Result<std::string> read_input(const Options& options) {
  if (options.input != "-") return read_file(options.input);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

Result<passes::QuantScheme> weight_format(const std::string& name) {
  if (name.empty()) return passes::QuantScheme();
  if (const auto format = passes::parse_quant_scheme(name)) return *format;
  return usage_error("'" + name + "' is not a weight format",
                     "use " + passes::quant_scheme_list(" or "));
}

Result<std::vector<passes::PassEntry>> chosen_passes(const Options& options) {
  std::vector<passes::PassEntry> chosen;
  if (options.pipeline) {
    const auto all = passes::pipeline();
    chosen.assign(all.begin(), all.end());
  }
  for (const auto& name : options.pass_names) {
    const auto* entry = passes::find_pass(name);
    if (!entry)
      return usage_error("no pass is called '" + name + "'", "llmc-opt --list shows them");
    chosen.push_back(*entry);
  }
  return chosen;
}

void print_times(const std::vector<passes::PassReport>& reports) {
  double total = 0;
  for (const auto& report : reports) total += report.seconds;
  for (const auto& report : reports)
    fmt::print(stderr, "{:>10.3f} ms  {:>6} -> {:<6} nodes  {}\n", report.seconds * 1e3,
               report.nodes_before, report.nodes_after, report.name);
  fmt::print(stderr, "{:>10.3f} ms  in all\n", total * 1e3);
}

Result<std::string> run(const Options& options) {
  LLMC_TRY(const auto text, read_input(options));
  ir::ParseOptions parsing;
  parsing.file = options.input == "-" ? "<stdin>" : options.input;
  if (options.stand_in) parsing.resolve = opt::zeros_for_mapped;
  auto parsed = ir::parse(text, parsing);
  if (!parsed.ok()) {
    Diagnostic d = parsed.error().first();
    if (!options.stand_in && d.message.find("is not available") != std::string::npos)
      d.hint = "--stand-in puts zeros in place of weights in files";
    return d;
  }
  ir::Graph graph = *std::move(parsed);
  if (auto verified = ir::verify(graph); !verified.ok()) {
    // The graph comes from the user, so errors in it are kBadInput, not those of a pass.
    auto diagnostics = verified.error().diagnostics();
    for (auto& d : diagnostics) d.kind = ErrorKind::kBadInput;
    return Error(std::move(diagnostics)).in_file(parsing.file);
  }
  LLMC_TRY(const auto chosen, chosen_passes(options));
  passes::PipelineOptions running;
  running.verify = options.verify_each;
  LLMC_TRY(const auto format, weight_format(options.quant));
  running.context.options.weights = format;
  running.context.options.requantize = options.requantize;
  if (options.explain_formats)
    running.context.on_weight = [](const passes::WeightDecision& decision) {
      fmt::print(stderr, "{}\n", passes::to_string(decision));
    };
  if (!options.dump_folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.dump_folder, error);
    if (error) return system_error(options.dump_folder, "create", error.value());
    running.dump = passes::dump_ir_to(options.dump_folder);
  }
  const auto skipped =
      graph.is_decoder() ? passes::PassGraphs::kPlain : passes::PassGraphs::kDecoders;
  for (const auto& name : options.pass_names)
    if (passes::find_pass(name)->graphs == skipped)
      fmt::print(stderr, "note: {} is for other graphs{} and is not run\n", name,
                 graphs_text(skipped));
  LLMC_TRY(auto result, passes::run_passes(std::move(graph), chosen, running));
  // Verify the result even without --verify-each, so that no invalid graph is printed.
  LLMC_RETURN_IF_ERROR(ir::verify(result.graph));
  if (options.time_passes) print_times(result.reports);
  if (options.evaluate) return opt::evaluation_text(result.graph, options.sizes, options.seed);
  return ir::print(result.graph);
}

int run_command_line(int argc, char** argv) {
  Options options;
  CLI::App app{"llmc-opt: runs passes on a graph in text form and prints it", "llmc-opt"};
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("llmc-opt: error: {}\nhint: llmc-opt --help lists what is accepted\n",
                       error.what());
  });
  app.add_option("input", options.input, "File to read; - is standard input");
  app.add_option("-o,--output", options.output, "File to write; - is standard output");
  app.add_option("--pass", options.pass_names, "Run this pass; may be repeated, in order")
      ->allow_extra_args(false);
  app.add_flag("--pipeline", options.pipeline, "Run the whole pipeline (before any --pass)");
  app.add_flag("--list", options.list, "List the passes");
  app.add_flag("--verify-each", options.verify_each, "Verify the graph after every pass");
  app.add_option("--dump-ir", options.dump_folder,
                 "Write the graph after every pass into a folder");
  app.add_flag("--time-passes", options.time_passes, "Print the time of every pass on stderr");
  app.add_option("--quant", options.quant,
                 "Weight format for assign_weight_formats: " + passes::quant_scheme_list(" or "));
  app.add_flag("--requantize", options.requantize,
               "Round matrices that have integer codes to the weight format, too");
  app.add_flag("--explain-formats", options.explain_formats,
               "Print the role and format of every weight matrix, and why, on stderr");
  app.add_flag("--stand-in", options.stand_in,
               "Zeros in place of weights in files (`mapped`), for dumps of real models");
  app.add_flag("--eval", options.evaluate,
               "Evaluate on made-up inputs and print the results instead of the graph");
  app.add_option("--set", options.sizes, "NAME=N: a symbol's size for --eval (1 by default)")
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed, "Seed of the inputs for --eval");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : exit_code(ErrorKind::kUsage);
  }
  if (options.list) {
    list_passes();
    return 0;
  }
  const auto text = run(options);
  if (!text.ok()) return fail(text.error());
  if (options.output != "-") {
    const auto written = replace_file(options.output, *text);
    return written.ok() ? 0 : fail(written.error());
  }
  const bool complete = std::fwrite(text->data(), 1, text->size(), stdout) == text->size() &&
                        std::fflush(stdout) == 0;
  if (!complete) return fail(system_error("standard output", "write", errno));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmc-opt: error: %s\n", error.what());
    return exit_code(ErrorKind::kInternal);
  }
}
