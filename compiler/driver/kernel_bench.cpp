#include "compiler/driver/kernel_bench.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "compiler/driver/resources.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/kernel_source.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "compiler/support/temporary_directory.h"
#include "llmc/model.h"
#include "llmc/quant/random.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxSide = 1u << 20, kMaxTokens = 4096;
/// Of weights, activations, results and scratch together.
constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;

struct NamedFormat {
  std::string_view name;
  WeightKind kind;
};
constexpr NamedFormat kFormats[] = {{"f32", WeightKind::kF32},
                                    {"f16", WeightKind::kF16},
                                    {"q8", WeightKind::kQ8},
                                    {"q4", WeightKind::kQ4}};

Diagnostic failure(ErrorKind kind, std::string message, std::string hint = {}) {
  return Diagnostic{.kind = kind,
                    .file = {},
                    .node = {},
                    .op = {},
                    .message = std::move(message),
                    .hint = std::move(hint)};
}

struct Free {
  void operator()(unsigned char* p) const { std::free(p); }
};
using Block = std::unique_ptr<unsigned char, Free>;

Result<Block> allocate(std::uint64_t bytes, int fill) {
  const std::uint64_t size = round_up(std::max<std::uint64_t>(bytes, 1), kAlignment);
  Block block(static_cast<unsigned char*>(std::aligned_alloc(kAlignment, size)));
  if (!block) return failure(ErrorKind::kOverBudget, fmt::format("no memory for {} bytes", size));
  std::memset(block.get(), fill, size);
  return block;
}

/// The kernel at one level, compiled and loaded.
class GemmLibrary {
 public:
  using Function = void (*)(const llmc_run*, const float*, float*);

  static Result<std::unique_ptr<GemmLibrary>> compile(const Toolchain& toolchain,
                                                      const target::Target& target,
                                                      const emit::GemmKernel& kernel,
                                                      const std::vector<std::string>& cflags) {
    const std::string source = emit::gemm_source(kernel, target);
    LLMC_TRY(TemporaryDirectory folder, TemporaryDirectory::create());
    for (const Resource& resource : headers_for(source)) {
      const fs::path path = folder.path() / bundle_path(resource.path);
      std::error_code error;
      fs::create_directories(path.parent_path(), error);
      if (error) return system_error(path, "create", error.value());
      LLMC_RETURN_IF_ERROR(write_file(path, resource.content));
    }
    LLMC_RETURN_IF_ERROR(write_file(folder.path() / "gemm.cpp", source));
    std::vector<std::string> arguments = model_arguments(target, "gemm", cflags);
    arguments.emplace_back("-fvisibility=default");
    LLMC_RETURN_IF_ERROR(
        compile_shared(toolchain, folder.path(), std::move(arguments), "gemm.cpp", "gemm.so"));
    auto library = std::make_unique<GemmLibrary>();
    library->handle_ = ::dlopen((folder.path() / "gemm.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const address =
        library->handle_ ? ::dlsym(library->handle_, emit::kGemmFunction) : nullptr;
    if (address == nullptr) {
      const char* reason = ::dlerror();
      return failure(ErrorKind::kToolchain,
                     fmt::format("cannot load the compiled kernel: {}", reason ? reason : ""));
    }
    std::memcpy(&library->function_, &address, sizeof address);
    return library;
  }
  GemmLibrary() = default;
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;
  ~GemmLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Function function() const { return function_; }

 private:
  void* handle_ = nullptr;
  Function function_ = nullptr;
};

/// What a kernel reads and writes: the same for all levels.
struct Operands {
  Block weights, x, y, work;
  std::size_t y_floats = 0;

  static Result<Operands> create(const emit::GemmKernel& kernel, hosted::ThreadPool& pool) {
    Operands result;
    result.y_floats = kernel.rows * kernel.tokens;
    const std::uint64_t x_floats = kernel.columns * kernel.tokens;
    LLMC_TRY(result.weights, allocate(kernel.weight_bytes(), 0));
    LLMC_TRY(result.x, allocate(x_floats * sizeof(float), 0));
    LLMC_TRY(result.y, allocate(result.y_floats * sizeof(float), 0));
    LLMC_TRY(result.work, allocate(kernel.work_bytes(), 0));
    struct Fill {
      const emit::GemmKernel& kernel;
      unsigned char* weights;
      std::uint32_t parts;
    } fill{kernel, result.weights.get(), 8 * pool.threads()};
    pool.parallel_for(
        [](void* arg, std::uint32_t i) {
          const Fill& f = *static_cast<const Fill*>(arg);
          const std::uint64_t panels = panel_count(f.kernel.rows);
          const auto row = [&](std::uint64_t part) {
            return std::min(f.kernel.rows, panels * part / f.parts * kPanelRows);
          };
          packing::fill_weight(f.kernel.kind, f.weights, f.kernel.columns, row(i), row(i + 1),
                               kGemmWeightSeed);
        },
        &fill, fill.parts);
    auto* const x = reinterpret_cast<float*>(result.x.get());
    for (std::uint64_t i = 0; i < x_floats; ++i) x[i] = packing::mixed_float(kGemmInputSeed, i);
    return result;
  }
  void forget_result() { std::memset(y.get(), 0xff, y_floats * sizeof(float)); }
  std::uint64_t hash() const {
    return packing::hash_of(reinterpret_cast<const float*>(y.get()), y_floats);
  }
};

emit::GemmKernel kernel_of(const KernelBenchOptions& options, WeightKind format) {
  return {.kind = format,
          .rows = options.shape.rows,
          .columns = options.shape.columns,
          .tokens = options.shape.tokens,
          .threads = std::ranges::max(options.threads)};
}

Status check_memory(const emit::GemmKernel& kernel) {
  // Sides below 2^20: no sum or product here leaves 64 bits.
  const std::uint64_t bytes = kernel.weight_bytes() + kernel.work_bytes() +
                              (kernel.rows + kernel.columns) * kernel.tokens * sizeof(float);
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  const std::uint64_t machine =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                            : kMaxBytes;
  const std::uint64_t limit = std::min(kMaxBytes, machine / 2);
  if (bytes <= limit) return ok_status();
  return failure(
      ErrorKind::kOverBudget,
      fmt::format("{}x{}x{} in {} needs {} bytes of memory, more than the {} a benchmark "
                  "may take here",
                  kernel.rows, kernel.columns, kernel.tokens, kernel_format_name(kernel.kind),
                  bytes, limit),
      "use a smaller --shape");
}

/// One level of one format with some number of threads.
struct Contestant {
  KernelTimes* times;
  GemmLibrary::Function function;
  hosted::ThreadPool* pool;
};

double run_once(const Contestant& contestant, const Operands& operands, std::uint64_t tokens) {
  llmc_run run = {};
  run.count = static_cast<std::uint32_t>(tokens);
  run.scratch = operands.work.get();
  run.weights = operands.weights.get();
  run.threads = contestant.times->threads;
  run.parallel_for = hosted::ThreadPool::run;
  run.user = contestant.pool;
  const auto started = std::chrono::steady_clock::now();
  contestant.function(&run, reinterpret_cast<const float*>(operands.x.get()),
                      reinterpret_cast<float*>(operands.y.get()));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

/// Times of one format, appended to `results`.
Status bench_format(const KernelBenchOptions& options, WeightKind format,
                    const Toolchain& toolchain, const Progress& progress,
                    std::vector<KernelTimes>& results) {
  const emit::GemmKernel kernel = kernel_of(options, format);
  const std::string name(kernel_format_name(format));
  std::vector<std::unique_ptr<GemmLibrary>> libraries;
  for (const std::uint32_t level : options.levels) {
    report(progress, "compile " + name, libraries.size(), options.levels.size());
    LLMC_TRY(const target::Target* const target, target::find(options.target, level));
    LLMC_TRY(libraries.emplace_back(),
             GemmLibrary::compile(toolchain, *target, kernel, options.cflags));
  }
  report(progress, "weights " + name, 0, 0);
  std::vector<std::unique_ptr<hosted::ThreadPool>> pools;
  for (const std::uint32_t threads : options.threads) {
    auto pool = hosted::ThreadPool::create(threads);
    if (!pool.ok()) return failure(ErrorKind::kBadInput, pool.failure().message);
    pools.push_back(*std::move(pool));
  }
  auto all_cores = hosted::ThreadPool::create(hosted::usable_cores());
  if (!all_cores.ok()) return failure(ErrorKind::kBadInput, all_cores.failure().message);
  LLMC_TRY(Operands operands, Operands::create(kernel, **all_cores));

  std::vector<KernelTimes> times;
  times.reserve(options.threads.size() * options.levels.size());
  std::vector<Contestant> contestants;
  for (std::size_t t = 0; t < options.threads.size(); ++t) {
    for (std::size_t l = 0; l < options.levels.size(); ++l) {
      times.push_back({.format = format,
                       .threads = options.threads[t],
                       .level = options.levels[l],
                       .seconds = {},
                       .weight_bytes = kernel.weight_bytes()});
      contestants.push_back({&times.back(), libraries[l]->function(), pools[t].get()});
    }
  }
  // In turn: what a shared machine does in the meantime happens to all of them.
  const std::uint64_t total = (options.repetitions + 1) * contestants.size();
  std::uint64_t done = 0;
  for (std::uint32_t repetition = 0; repetition <= options.repetitions; ++repetition) {
    for (const Contestant& contestant : contestants) {
      report(progress, name, done++, total);
      if (repetition == 0) operands.forget_result();
      const double seconds = run_once(contestant, operands, options.shape.tokens);
      if (repetition == 0) {
        contestant.times->hash = operands.hash();
      } else {
        contestant.times->seconds.push_back(seconds);
      }
    }
  }
  report(progress, name, total, total);
  results.insert(results.end(), times.begin(), times.end());
  return ok_status();
}

}  // namespace

std::string_view kernel_format_name(WeightKind format) {
  for (const NamedFormat& named : kFormats)
    if (named.kind == format) return named.name;
  LLMC_CHECK(false);
  return {};
}

Result<std::vector<WeightKind>> parse_kernel_formats(std::string_view text) {
  std::vector<WeightKind> formats;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto* const named = std::ranges::find(kFormats, word, &NamedFormat::name);
    if (named == std::end(kFormats)) {
      return failure(ErrorKind::kUsage,
                     fmt::format("--format {} is no list of weight formats", printable(text, 40)),
                     "write f32, f16, q8, q4 or several of them with commas");
    }
    if (std::ranges::count(formats, named->kind) == 0) formats.push_back(named->kind);
    begin = end + 1;
  }
  return formats;
}

Result<GemmShape> parse_gemm_shape(std::string_view text) {
  std::uint64_t sides[3] = {};
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, sides[i]);
    const bool last = i == 2;
    if (error != std::errc{} || (last ? next != end : next == end || *next != 'x')) {
      return failure(ErrorKind::kUsage,
                     fmt::format("--shape {} is not a shape", printable(text, 60)),
                     "write rows x columns x tokens without blanks, such as 11008x4096x128");
    }
    at = last ? next : next + 1;
  }
  const auto [rows, columns, tokens] = sides;
  if (rows == 0 || columns == 0 || tokens == 0 || rows > kMaxSide || columns > kMaxSide ||
      tokens > kMaxTokens) {
    return failure(
        ErrorKind::kUsage, fmt::format("--shape {} is out of range", printable(text, 60)),
        fmt::format("rows and columns go from 1 to {}, tokens from 1 to {}", kMaxSide, kMaxTokens));
  }
  return GemmShape{.rows = rows, .columns = columns, .tokens = tokens};
}

double KernelTimes::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  if (n == 0) return 0;
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

const KernelTimes* KernelBenchReport::find(WeightKind format, std::uint32_t threads,
                                           std::uint32_t level) const {
  const auto at = std::ranges::find_if(results, [&](const KernelTimes& times) {
    return times.format == format && times.threads == threads && times.level == level;
  });
  return at == results.end() ? nullptr : &*at;
}

std::pair<const KernelTimes*, const KernelTimes*> different_bits(const KernelBenchReport& report) {
  for (const KernelTimes& times : report.results) {
    for (const KernelTimes& other : report.results)
      if (times.format == other.format && times.hash != other.hash) return {&times, &other};
  }
  return {nullptr, nullptr};
}

Result<KernelBenchReport> bench_gemm(const KernelBenchOptions& options, const Progress& progress) {
  LLMC_CHECK(!options.levels.empty() && !options.threads.empty() && !options.formats.empty());
  for (const std::uint32_t level : options.levels) {
    LLMC_TRY(const target::Target* const target, target::find(options.target, level));
    if (!target::runs_here(*target)) {
      return failure(ErrorKind::kUnsupported,
                     fmt::format("this machine cannot run code for {}", target::described(*target)),
                     "`llmc targets` lists what runs here");
    }
  }
  for (const WeightKind format : options.formats)
    LLMC_RETURN_IF_ERROR(check_memory(kernel_of(options, format)));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  KernelBenchReport report;
  for (const WeightKind format : options.formats)
    LLMC_RETURN_IF_ERROR(bench_format(options, format, toolchain, progress, report.results));
  return report;
}

}  // namespace llmc::driver
