#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

#include "compiler/support/signal_cleanup.h"
#include "models/random/random_model.h"

/// llmc-random-model: writes split models of known shapes with random weights (models/README.md).
namespace {

using namespace llmc;

constexpr std::int64_t kMaxLayers = 1000;

struct Options {
  std::string name, output;
  std::int64_t layers = 0;
  std::uint64_t seed = 1;
  bool list = false;
};

int fail(const Error& error) {
  for (const Diagnostic& d : error.diagnostics()) fmt::print(stderr, "{}\n", format(d));
  return exit_code(error.first().kind);
}

void list_shapes() {
  fmt::print("{:<14}{:>8}{:>8}{:>8}{:>7}{:>10}{:>10}{:>12}{:>9}{:>6}{:>7}{:>6}{:>14}{:>10}\n",
             "name", "hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocabulary",
             "experts", "used", "tied", "bias", "parameters", "MB");
  for (const models::RandomShape& s : models::random_shapes()) {
    const models::SplitConfig& c = s.config;
    fmt::print("{:<14}{:>8}{:>8}{:>8}{:>7}{:>10}{:>10}{:>12}{:>9}{:>6}{:>7}{:>6}{:>14}{:>10.1f}\n",
               s.name, c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads, c.head_dim,
               c.vocabulary, c.experts, c.experts_used, s.tied ? "yes" : "no",
               c.bias ? "yes" : "no", models::parameter_count(s),
               static_cast<double>(models::file_bytes(s)) * 1e-6);
  }
}

Status run(const Options& options) {
  if (options.name.empty() || options.output.empty())
    return usage_error("a shape and a folder for the model are required",
                       "such as: llmc-random-model qwen1.5-0.5b -o FOLDER");
  const models::RandomShape* const known = models::find_random_shape(options.name);
  if (known == nullptr)
    return usage_error(fmt::format("no shape is called '{}'", printable(options.name, 80)),
                       "llmc-random-model --list shows them");
  models::RandomShape shape = *known;
  shape.config.seed = options.seed;
  if (options.layers > 0) shape.config.layers = options.layers;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const Status written =
      models::write_random_model(shape, options.output, [&](std::int64_t done, std::int64_t all) {
        if (terminal) fmt::print(stderr, "\r\x1b[K{} of {} files", done, all);
      });
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  return written;
}

int run_command_line(int argc, char** argv) {
  CLI::App app{
      "llmc-random-model: writes a model of a known shape with random weights, as split "
      "ONNX blocks",
      "llmc-random-model"};
  Options options;
  app.add_option("NAME", options.name, "The shape: --list shows them");
  app.add_option("-o,--output", options.output,
                 "Folder of the model; an earlier one of this program is replaced")
      ->type_name("FOLDER");
  app.add_option("--layers", options.layers, "Layers, in place of the shape's")
      ->check(CLI::Range(std::int64_t{1}, kMaxLayers))
      ->type_name("N");
  app.add_option("--seed", options.seed, "Of the weights: the same seed gives the same files")
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--list", options.list, "List the shapes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_code(ErrorKind::kUsage);
  }
  if (options.list) {
    list_shapes();
    return 0;
  }
  const Status status = run(options);
  return status.ok() ? 0 : fail(status.error());
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit becomes a write error
  install_signal_cleanup();
  try {
    return run_command_line(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "llmc-random-model: error: {}\n", e.what());
    return exit_code(ErrorKind::kInternal);
  }
}
