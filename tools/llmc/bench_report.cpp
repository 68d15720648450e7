#include "tools/llmc/bench_report.h"

#include <fmt/format.h>

#include <numeric>

#include "compiler/bench/peak.h"
#include "tools/llmc/accelerator_text.h"
#include "tools/llmc/huge_page_options.h"

namespace llmc::cli {
namespace {

using bench::BenchResult;

constexpr std::string_view kTitles[] = {"norm+QKV", "attention", "O",   "gate-up",
                                        "down",     "head",      "rest"};
static_assert(std::size(kTitles) == kParts);

Part part_at(std::uint32_t index) {
  return static_cast<Part>(index);
}

/// Returns whether the test runs all tokens at once, so that arithmetic bounds it.
bool is_prompt(const BenchResult& r) {
  return r.test != BenchResult::Test::kGeneration;
}

std::string test_name(const BenchResult& r) {
  const char* const kind = r.test == BenchResult::Test::kEncode        ? "enc"
                           : r.test == BenchResult::Test::kEncodeImage ? "img"
                           : r.test == BenchResult::Test::kEncodeAudio ? "aud"
                           : r.test == BenchResult::Test::kPrompt      ? "pp"
                                                                       : "tg";
  std::string name = fmt::format("{}{}", kind, r.tokens);
  if (r.sequences > 1) name += fmt::format(" x {}", r.sequences);
  if (r.uncached) name += " uncached";
  return r.depth == 0 ? name : fmt::format("{} @ d{}", name, r.depth);
}

/// Amount of a resource that a test uses per second, and the machine's limit; 0: unknown.
struct Rate {
  double reached = 0, limit = 0;

  double ratio() const { return limit > 0 ? reached / limit : 0; }
};

/// Returns the rate of multiply-adds with weights.
Rate mac_rate(const BenchResult& r, const bench::BenchReport& report, const MachineLimits& limits) {
  if (r.uncached) return {};
  // The minimum time is the sum over the formats, each at its peak rate.
  double macs = 0, least_seconds = 0;
  const auto peaks = limits.macs.find(r.threads);
  for (const plan::Products& p : report.products) {
    macs += report.macs(r, p);
    if (peaks == limits.macs.end()) continue;
    const auto peak = peaks->second.find(bench::arithmetic_of(p.format));
    if (peak != peaks->second.end() && peak->second > 0)
      least_seconds += report.macs(r, p) / peak->second;
  }
  return {.reached = macs / static_cast<double>(r.all_tokens()) * r.tokens_per_second,
          .limit = least_seconds > 0 ? macs / least_seconds : 0};
}

/// Returns the rate of bytes that a generation test reads. A step reads the weights once for all
/// sequences, and the cache of each sequence.
Rate read_rate(const BenchResult& r, const bench::BenchReport& report,
               const MachineLimits& limits) {
  if (r.uncached) return {};
  const auto limit = limits.read_bytes.find(r.threads);
  const double steps_per_second = r.tokens_per_second / r.sequences;
  return {.reached = steps_per_second *
                     (report.weight_bytes_read(r) + report.cache_bytes_read(r) / r.tokens),
          .limit = limit != limits.read_bytes.end() ? limit->second : 0};
}

/// The rate of the resource that bounds a test.
struct Bound {
  Rate rate;
  bool arithmetic;  // multiply-adds, else bytes
};

/// Returns the bound of a test. Prompts are bounded by arithmetic, and the generation of one
/// sequence by memory. The generation of several sequences is bounded by the resource that is
/// nearer to its limit.
Bound bound_of(const BenchResult& r, const bench::BenchReport& report,
               const MachineLimits& limits) {
  const Rate macs = mac_rate(r, report, limits);
  if (is_prompt(r)) return {macs, true};
  const Rate bytes = read_rate(r, report, limits);
  const bool arithmetic = r.sequences > 1 && macs.ratio() > bytes.ratio();
  return {arithmetic ? macs : bytes, arithmetic};
}

/// Multiply-adds with weights, and bytes of weights or of the cache, of one part in a whole test.
struct Work {
  double macs = 0, bytes = 0;
};
Work work_of(const bench::BenchReport& report, const BenchResult& r, Part part) {
  Work work;
  if (r.uncached) return work;
  if (part == Part::kAttention && !is_prompt(r)) work.bytes = report.cache_bytes_read(r);
  for (const plan::Products& p : report.products) {
    if (p.part != part) continue;
    work.macs += report.macs(r, p);
    work.bytes += report.bytes_read(r, p) * r.tokens;
  }
  return work;
}

Json parts_json(const bench::BenchReport& report, const BenchResult& r) {
  Json parts = Json::array();
  for (std::uint32_t i = 0; i < kParts; ++i) {
    const double seconds = r.parts->seconds[i];
    Json part{{"part", plan::part_name(part_at(i))},
              {"seconds", seconds},
              {"share", seconds / r.parts->total()}};
    const Work work = work_of(report, r, part_at(i));
    if (work.macs > 0 && seconds > 0) part["macs_per_second"] = work.macs / seconds;
    if (work.bytes > 0 && seconds > 0 && !is_prompt(r))
      part["read_bytes_per_second"] = work.bytes / seconds;
    parts.push_back(std::move(part));
  }
  return parts;
}

Json steps_json(const bench::StepTimes& steps) {
  const std::size_t largest = steps.largest();
  const double middle = steps.percentile(0.5);
  return Json{{"p50_seconds", middle},
              {"p90_seconds", steps.percentile(0.9)},
              {"p99_seconds", steps.percentile(0.99)},
              {"max_seconds", steps.seconds[largest]},
              {"max_position", steps.first_position + largest},
              {"max_to_p50", steps.seconds[largest] / middle},
              {"first_position", steps.first_position},
              {"seconds", steps.seconds}};
}

/// Returns the table of speeds. In CSV, arithmetic and memory have separate columns, because a
/// column has one unit.
Table speed_table(const BenchTables& t, TableFormat format) {
  const bool csv = format == TableFormat::kCsv;
  std::vector<Column> columns{{"test", Column::Align::kLeft},
                              {"threads"},
                              {"tokens/s"},
                              {.title = "from", .csv_title = "from tokens/s"},
                              {.title = "to", .csv_title = "to tokens/s"}};
  if (csv)
    columns.insert(columns.end(),
                   {{"reached GMAC/s"}, {"limit GMAC/s"}, {"reached GB/s"}, {"limit GB/s"}});
  else
    columns.insert(columns.end(), {{"reached"}, {"limit"}});
  columns.push_back({.title = "of the limit", .unit = "%"});
  Table table(format, columns);
  for (const BenchResult& r : t.report.results) {
    const auto [rate, arithmetic] = bound_of(r, t.report, t.limits);
    const auto number = [&, in_macs = arithmetic](double value) {
      if (value <= 0) return std::string();
      return csv ? fmt::format("{:.1f}", value * 1e-9)
                 : fmt::format("{:.1f} {}", value * 1e-9, in_macs ? "GMAC/s" : "GB/s");
    };
    std::vector<std::string> cells{
        test_name(r), fmt::to_string(r.threads), fmt::format("{:.1f}", r.tokens_per_second),
        fmt::format("{:.1f}", r.minimum), fmt::format("{:.1f}", r.maximum)};
    if (csv && !arithmetic) cells.resize(cells.size() + 2);
    cells.push_back(number(rate.reached));
    cells.push_back(number(rate.limit));
    if (csv && arithmetic) cells.resize(cells.size() + 2);
    cells.push_back(rate.limit > 0 ? fmt::format("{:.0f}", 100 * rate.ratio()) : std::string());
    table.add(std::move(cells));
  }
  return table;
}

/// Returns a CSV table of numbers with a row for each part of each test.
Table parts_csv(const BenchTables& t) {
  Table table(TableFormat::kCsv,
              {{"test"}, {"threads"}, {"part"}, {"ms"}, {"share %"}, {"GMAC/s"}, {"GB/s"}});
  for (const BenchResult& r : t.report.results) {
    if (!r.parts) continue;
    const double scale = 1e3 / (is_prompt(r) ? 1 : r.tokens);
    for (std::uint32_t i = 0; i < kParts; ++i) {
      const Work work = work_of(t.report, r, part_at(i));
      const double seconds = r.parts->seconds[i];
      const auto rate = [&](double amount) {
        return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds * 1e-9)
                                         : std::string();
      };
      table.add({test_name(r), fmt::to_string(r.threads), std::string(kTitles[i]),
                 fmt::format("{:.3f}", seconds * scale),
                 fmt::format("{:.1f}", 100 * seconds / r.parts->total()),
                 is_prompt(r) ? rate(work.macs) : std::string(),
                 is_prompt(r) ? std::string() : rate(work.bytes)});
    }
  }
  return table;
}

Table parts_table(const BenchTables& t, TableFormat format) {
  if (format == TableFormat::kCsv) return parts_csv(t);
  std::vector<Column> columns{{"ms", Column::Align::kLeft}, {"threads"}};
  for (const std::string_view title : kTitles) columns.push_back({std::string(title)});
  columns.push_back({"all"});
  Table table(format, columns);
  for (const BenchResult& r : t.report.results) {
    if (!r.parts) continue;
    // Times are per prompt and per generation step.
    const double scale = 1e3 / (is_prompt(r) ? 1 : r.tokens);
    const double total = r.parts->total();
    std::vector<std::string> times{test_name(r), fmt::to_string(r.threads)};
    for (const double seconds : r.parts->seconds)
      times.push_back(fmt::format("{:.3f} ({:.1f} %)", seconds * scale, 100 * seconds / total));
    times.push_back(fmt::format("{:.3f}", total * scale));
    table.add(std::move(times));
    std::vector<std::string> rates{is_prompt(r) ? "GMAC/s" : "GB/s", ""};
    for (std::uint32_t i = 0; i < kParts; ++i) {
      const Work work = work_of(t.report, r, part_at(i));
      const double amount = is_prompt(r) ? work.macs : work.bytes;
      const double seconds = r.parts->seconds[i];
      const bool known = amount > 0 && seconds > 0;
      rates.push_back(known ? fmt::format("{:.1f}", amount / seconds * 1e-9) : std::string());
    }
    rates.emplace_back();
    table.add(std::move(rates));
  }
  return table;
}

/// Returns the table of times per step; empty if no test generated tokens.
std::string steps_table(const BenchTables& t, TableFormat format) {
  Table table(format, {{"ms per step", Column::Align::kLeft, 0, {}, "test"},
                       {"threads"},
                       {.title = "p50", .csv_title = "p50 ms"},
                       {.title = "p90", .csv_title = "p90 ms"},
                       {.title = "p99", .csv_title = "p99 ms"},
                       {.title = "largest", .csv_title = "largest ms"},
                       {"at position"},
                       {"largest : p50"}});
  bool any = false;
  for (const BenchResult& r : t.report.results) {
    if (r.steps.seconds.empty()) continue;
    any = true;
    const std::size_t largest = r.steps.largest();
    const double middle = r.steps.percentile(0.5);
    const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
    table.add({test_name(r), fmt::to_string(r.threads), ms(middle), ms(r.steps.percentile(0.9)),
               ms(r.steps.percentile(0.99)), ms(r.steps.seconds[largest]),
               fmt::to_string(r.steps.first_position + largest),
               fmt::format("{:.2f}", r.steps.seconds[largest] / middle)});
  }
  return any ? "\n" + table.text() : std::string();
}

}  // namespace

Json BenchTables::json() const {
  Json rows = Json::array();
  for (const BenchResult& r : report.results) {
    Json row{{"test", test_name(r)},
             {"threads", r.threads},
             {"tokens", r.tokens},
             {"depth", r.depth},
             {"sequences", r.sequences},
             {"tokens_per_second", r.tokens_per_second},
             {"least_tokens_per_second", r.minimum},
             {"most_tokens_per_second", r.maximum},
             {"deviation", r.deviation},
             {"seconds", r.seconds}};
    if (const auto at = limits.read_bytes.find(r.threads); at != limits.read_bytes.end())
      row["read_bandwidth_bytes_per_second"] = at->second;
    if (is_prompt(r) || r.sequences > 1) {
      const Rate macs = mac_rate(r, report, limits);
      if (macs.reached > 0) row["macs_per_second"] = macs.reached;
      if (macs.limit > 0) {
        row["peak_macs_per_second"] = macs.limit;
        row["ratio_to_peak"] = macs.ratio();
      }
    }
    if (!is_prompt(r) && !r.uncached) {
      const Rate bytes = read_rate(r, report, limits);
      row["read_bytes_per_second"] = bytes.reached;
      if (bytes.limit > 0) row["ratio_to_read_bandwidth"] = bytes.ratio();
    }
    if (!r.steps.seconds.empty()) row["logits_computed"] = r.logits_computed;
    if (r.parts) row["parts"] = parts_json(report, r);
    if (!r.steps.seconds.empty()) row["steps"] = steps_json(r.steps);
    rows.push_back(std::move(row));
  }
  Json devices = Json::array();
  for (const exec::DeviceUse& device : report.devices) devices.push_back(device_json(device));
  return Json{{"model", model},
              {"target", report.target},
              {"opt_level", report.opt_level},
              {"quant", quant.empty() ? Json(nullptr) : Json(quant)},
              {"emulator", report.emulator.empty() ? Json(nullptr) : Json(report.emulator)},
              {"weight_bytes", report.weight_bytes},
              {"weight_bytes_per_token", report.weight_bytes_per_token},
              {"arena_bytes", report.arena_bytes},
              {"cache_bytes", report.cache_bytes},
              {"huge_pages", Json{{"weight_bytes", report.huge_pages.weights},
                                  {"copy_seconds", report.huge_pages.seconds},
                                  {"arena", report.huge_pages.arena}}},
              {"accelerators", std::move(devices)},
              {"results", std::move(rows)}};
}

std::string BenchTables::text(TableFormat format) const {
  std::string text = speed_table(*this, format).text();
  if (layers) text += "\n" + parts_table(*this, format).text() + steps_table(*this, format);
  return text;
}

std::string BenchTables::explanation() const {
  std::string text = fmt::format(
      "{} ({}{}): {} of weights, {} read per token; arena {}, of which cache {}\n"
      "{}",
      model, report.target, quant.empty() ? "" : ", " + quant, human_bytes(report.weight_bytes),
      human_bytes(report.weight_bytes_per_token), human_bytes(report.arena_bytes),
      human_bytes(report.cache_bytes),
      repetitions == 1 ? "one run of each test; -r 5 shows the spread"
                       : fmt::format("median, slowest and fastest of {} runs", repetitions));
  if (!report.emulator.empty()) {
    return text + fmt::format(
                      "\nunder {}: no limits, because times under emulation are not representative "
                      "of the processor; docs/performance.md counts instructions",
                      report.emulator);
  }
  text += fmt::format(
      "\n{}\nlimits: memory bandwidth of the same number of threads{}, measured before and after, "
      "beside the weights and cached keys and values that a step reads; what fits the CPU's caches "
      "can exceed 100 %",
      huge_pages_text(report.huge_pages), report.huge_pages.weights > 0 ? " in huge pages" : "");
  for (const exec::DeviceUse& device : report.devices) text += "\n" + device_text(device);
  if (layers) {
    text +=
        "\nstage times: median repetition of a second build with time measurement; per prompt, and "
        "per generation step\nsteps by position: minimum of all repetitions, which excludes "
        "interference";
  }
  return text;
}

}  // namespace llmc::cli
