#include "tools/llmc/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "compiler/target/target.h"

namespace llmc::cli {
namespace {

/// Widest of the targets that this CPU runs; the table lists generic first.
std::string best_target_here() {
  std::string_view best = target::all().front().name;
  std::size_t features = 0;
  for (const target::Target& t : target::all()) {
    if (target::runs_here(t) && t.features.size() >= features) {
      best = t.name;
      features = t.features.size();
    }
  }
  return std::string(best);
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  driver::CompileOptions& c = options.compile;
  app.add_option("MODEL", options.model, "Folder of split ONNX blocks, one .onnx file, or a bundle")
      ->required();
  app.add_option("--target", options.target,
                 "Target; llmc targets lists them (default: best here)");
  app.add_option("--quant", options.quant, "Weights: q4, q8, f16 or f32")->capture_default_str();
  app.add_option("-c,--ctx", c.ctx, "Tokens of context")->capture_default_str();
  app.add_option("--block", c.block, "Tokens of a KV cache block, a multiple of 8")
      ->capture_default_str();
  app.add_option("--chunk", c.chunk, "Most tokens of a prompt run at once")->capture_default_str();
  app.add_option("--threads-max", c.threads_max, "Most threads the arena has room for")
      ->capture_default_str();
  app.add_option("--cc", c.cc, "clang++ to use (default: $LLMC_CC, clang++-19, clang++)");
  app.add_option("--cflag", c.cflags, "One more argument for clang; may be repeated")
      ->allow_extra_args(false);
}

Result<driver::CompileOptions> compile_options(const ModelOptions& options) {
  driver::CompileOptions result = options.compile;
  result.model = options.model;
  const std::string name = options.target.empty() ? best_target_here() : options.target;
  LLMC_TRY(const target::Target* target, target::find(name));
  result.target = std::string(target->name);
  const auto format = driver::parse_weight_format(options.quant);
  if (!format) {
    return Diagnostic{
        .kind = ErrorKind::kUsage,
        .file = {},
        .node = {},
        .op = {},
        .message = fmt::format("--quant {} is not a weight format", printable(options.quant)),
        .hint = "use q4, q8, f16 or f32"};
  }
  result.quant = *format;
  return result;
}

Result<driver::NativeOptions> native_options(const ModelOptions& options) {
  LLMC_TRY(driver::CompileOptions compile, compile_options(options));
  driver::NativeOptions result;
  result.compile = std::move(compile);
  result.use_cache = !options.no_cache;
  return result;
}

Result<std::vector<std::int32_t>> parse_numbers(const std::string& text, const std::string& what,
                                                std::int64_t limit) {
  std::vector<std::int32_t> result;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || number < 0 || number > limit || (next != end && *next != ','))
      break;
    result.push_back(static_cast<std::int32_t>(number));
    if (next == end) return result;
    at = next + 1;
  }
  return Diagnostic{.kind = ErrorKind::kUsage,
                    .file = {},
                    .node = {},
                    .op = {},
                    .message = fmt::format("{} {} is not a list of numbers from 0 to {}", what,
                                           printable(text), limit),
                    .hint = "write them with commas and no blanks, such as 1,2,3"};
}

std::uint32_t default_threads(std::uint32_t most) {
  return std::clamp(std::thread::hardware_concurrency(), 1u, std::max(most, 1u));
}

driver::Progress progress_of(Progress& line) {
  return [&line](std::string_view phase, std::uint64_t done, std::uint64_t total) {
    line.update(phase, done, total);
  };
}

Result<std::unique_ptr<driver::NativeModel>> load(const ModelOptions& options,
                                                  const Globals& globals) {
  LLMC_TRY(const driver::NativeOptions native, native_options(options));
  Progress line(globals);
  return driver::load_native(native, progress_of(line));
}

}  // namespace llmc::cli
