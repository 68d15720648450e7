#include "compiler/bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/driver/resources.h"
#include "compiler/support/check.h"
#include "compiler/target/target.h"

namespace llmc::bench {
namespace {

/// A tile constant and the values to try.
struct Choice {
  const char* name;
  std::vector<std::uint32_t> values;
  const char* instead = "";  // constant that replaces this one on targets whose header has it
};

/// A kernel and the tile constants that only it depends on.
struct Kernel {
  const char* what;
  WeightKind format;
  GemmShape shape;
  std::vector<Choice> choices;
};

/// Returns the kernels to tune. The prompts have 100 tokens, which few tile sizes divide, because
/// most real prompts also leave a remainder. With one token, the weights exceed the L2 cache.
const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all = {
      {"q4, a prompt of 100 tokens",
       WeightKind::kQ4,
       {.rows = 1024, .columns = 1024, .tokens = 100},
       {{"kTokenTile", {2, 3, 4, 6, 8, 12}},
        {"kPanelTile", {1, 2, 4}},
        {"kVnniTokens", {4, 6, 8, 12, 14}},
        {"kVnniVectors", {1, 2}}}},
      {"q8, a prompt of 100 tokens",
       WeightKind::kQ8,
       {.rows = 1024, .columns = 1024, .tokens = 100},
       {{"kVnniByteTokens", {3, 4, 5, 6}}, {"kByteTile", {2, 3, 4, 6, 8, 12}, "kVnniByteTokens"}}},
      {"f32, a prompt of 100 tokens",
       WeightKind::kF32,
       {.rows = 1024, .columns = 1024, .tokens = 100},
       {{"kFloatTokens", {2, 3, 4, 6, 8, 12}}, {"kFloatPanels", {1, 2, 4}}}},
      {"q4, a batch of 16",
       WeightKind::kQ4,
       {.rows = 4096, .columns = 4096, .tokens = 16},
       {{"kFewTokens", {3, 4, 6, 8}}}},
      {"q4, one token",
       WeightKind::kQ4,
       {.rows = 16384, .columns = 4096, .tokens = 1},
       {{"kWeightStreams", {1, 2, 4}}}},
  };
  return all;
}

std::uint32_t* find(Tiles& tiles, std::string_view name) {
  const auto at = std::ranges::find(tiles, name, &TileConstant::name);
  return at == tiles.end() ? nullptr : &at->value;
}

/// Returns whether the kernel reads the constant on a target whose header has the constants
/// `tiles`.
bool is_read(const Choice& choice, const Tiles& tiles) {
  return std::ranges::count(tiles, choice.name, &TileConstant::name) != 0 &&
         std::ranges::count(tiles, choice.instead, &TileConstant::name) == 0;
}

/// Returns the constants of the header that belong to the kernel.
Tiles values_of(const Kernel& kernel, Tiles tiles) {
  Tiles values;
  for (const Choice& choice : kernel.choices)
    if (const std::uint32_t* value = find(tiles, choice.name); is_read(choice, tiles))
      values.push_back({choice.name, *value});
  return values;
}

/// Maximum number of accumulators: vectors of 8 lanes, even if registers have 16 lanes. Operands
/// need no registers in this count, because they may be loaded again for each use.
constexpr std::uint32_t kMaxSums = 32;

/// Returns every combination of the kernel's values with at most kMaxSums accumulators, the current
/// combination first. The header's other constants do not change.
std::vector<Tiles> candidates(const Kernel& kernel, const Tiles& today) {
  std::vector<Tiles> sets{today};
  for (const Choice& choice : kernel.choices) {
    if (!is_read(choice, today)) continue;
    std::vector<Tiles> wider;
    for (const Tiles& set : sets) {
      for (const std::uint32_t value : choice.values) {
        wider.push_back(set);
        *find(wider.back(), choice.name) = value;
      }
    }
    sets = std::move(wider);
  }
  const auto same = [&](const Tiles& set) {
    return std::ranges::equal(set, today, {}, &TileConstant::value, &TileConstant::value);
  };
  const auto too_many = [&](const Tiles& set) {
    std::uint32_t sums = 1;
    for (const TileConstant& tile : values_of(kernel, set)) sums *= tile.value;
    return sums > kMaxSums;
  };
  std::erase_if(sets, [&](const Tiles& set) { return same(set) || too_many(set); });
  sets.insert(sets.begin(), today);
  return sets;
}

/// Returns the number of instructions, if they were counted, or else the minimum time, which other
/// programs affect least.
double cost(const KernelTimes& times) {
  return times.instructions ? static_cast<double>(times.instructions->all)
                            : std::ranges::min(times.seconds);
}

Result<std::string_view> tile_header(const target::Target& target) {
  const std::string path = fmt::format("templates/{}", target.tiles);
  for (const driver::Resource& resource : driver::resources())
    if (resource.path == path) return resource.content;
  return file_failure(ErrorKind::kInternal, path, "the target's tiles are not among the sources");
}

Result<TunedKernel> tune_kernel(const TuneOptions& options, const Kernel& kernel,
                                std::string_view header, const Tiles& today, std::string& emulator,
                                const driver::Progress& progress) {
  KernelBenchOptions bench = options.bench;
  bench.formats = {kernel.format};
  bench.shape = kernel.shape;
  bench.levels = {target::kMaxOptLevel};
  bench.threads = {1};
  const std::vector<Tiles> sets = candidates(kernel, today);
  for (const Tiles& set : sets) bench.tiles.push_back(with_tiles(header, set));
  LLMC_TRY(KernelBenchReport report, bench_gemm(bench, progress));
  LLMC_CHECK(report.results.size() == sets.size());
  const auto [one, other] = find_mismatch(report);
  if (one != nullptr) {
    return failure(ErrorKind::kMismatch,
                   fmt::format("{}: results depend on the tiles", kernel.what),
                   "this is a bug in llmc or in the target's SIMD header");
  }
  emulator = report.emulator;
  TunedKernel tuned{kernel.what, {}, 0};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    tuned.candidates.push_back({values_of(kernel, sets[i]), std::move(report.results[i])});
  }
  const auto cheapest = std::ranges::min_element(
      tuned.candidates, {}, [](const TunedCandidate& candidate) { return cost(candidate.times); });
  if (cost(cheapest->times) < cost(tuned.candidates[0].times) * (1 - options.min_gain))
    tuned.best = static_cast<std::size_t>(cheapest - tuned.candidates.begin());
  return tuned;
}

}  // namespace

Result<Tiles> parse_tiles(std::string_view header) {
  // Find each constant "kName = 12": a word, " = " and a number.
  Tiles tiles;
  for (std::size_t at = 0; (at = header.find(" = ", at)) != header.npos; at += 3) {
    const std::size_t blank = header.rfind(' ', at - 1);
    std::uint32_t value = 0;
    const char* const begin = header.data() + at + 3;
    const auto [end, error] = std::from_chars(begin, header.data() + header.size(), value);
    if (blank == header.npos || error != std::errc{}) continue;
    tiles.push_back({std::string(header.substr(blank + 1, at - blank - 1)), value});
  }
  if (!tiles.empty()) return tiles;
  return failure(ErrorKind::kInternal, "a tile header without numbers");
}

std::string with_tiles(std::string_view header, const Tiles& tiles) {
  std::string text(header);
  for (const TileConstant& tile : tiles) {
    const std::string start = fmt::format(" {} = ", tile.name);
    const std::size_t at = text.find(start);
    if (at == text.npos) continue;
    const std::size_t begin = at + start.size();
    text.replace(begin, text.find_first_not_of("0123456789", begin) - begin,
                 std::to_string(tile.value));
  }
  return text;
}

Result<TuneReport> tune(const TuneOptions& options, const driver::Progress& progress) {
  LLMC_TRY(const target::Target* const target, target::find(options.bench.target));
  LLMC_TRY(const std::string_view header, tile_header(*target));
  LLMC_TRY(const Tiles shipped, parse_tiles(header));
  TuneReport report;
  report.tiles = shipped;
  report.path = fmt::format("templates/{}", target->tiles);
  for (const Kernel& kernel : kernels()) {
    if (values_of(kernel, shipped).empty()) continue;
    LLMC_TRY(TunedKernel tuned,
             tune_kernel(options, kernel, header, report.tiles, report.emulator, progress));
    for (const TileConstant& tile : tuned.candidates[tuned.best].values)
      *find(report.tiles, tile.name) = tile.value;
    report.changed = report.changed || tuned.best != 0;
    report.kernels.push_back(std::move(tuned));
  }
  report.header = with_tiles(header, report.tiles);
  return report;
}

}  // namespace llmc::bench
