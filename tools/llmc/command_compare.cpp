#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "compiler/evaluate/compare.h"
#include "compiler/plan/kv_format.h"
#include "compiler/plan/weight_formats.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"
#include "tools/llmc/text_options.h"

namespace llmc::cli {
namespace {

struct CompareCommand {
  ModelOptions model;
  TextOptions text;
  std::string formats = "f32,f16,q8,q4";
  std::vector<std::string> caches;
  std::uint32_t threads = 0, steps = 64;
  TableFormat format = TableFormat::kText;
};

/// "f32,K=int8,V=fp8" -> "f32", "K=int8,V=fp8": adjacent formats of keys and values are one format
/// of the cache.
std::vector<std::string> split_caches(const std::string& list) {
  const auto is_half = [](const std::string& text) {
    return text.size() > 1 && text[1] == '=' && text.find(',') == text.npos;
  };
  std::vector<std::string> caches;
  for (const std::string& part : split(list)) {
    const bool second =
        !caches.empty() && is_half(part) && is_half(caches.back()) && part[0] != caches.back()[0];
    if (second) {
      caches.back() += "," + part;
    } else {
      caches.push_back(part);
    }
  }
  return caches;
}

/// Every combination of a weight format and a cache format, without duplicates.
Result<std::vector<evaluate::Mode>> modes_of(const CompareCommand& command) {
  std::vector<KvFormats> caches;
  for (const std::string& list : command.caches) {
    for (const std::string& text : split_caches(list)) {
      LLMC_TRY(const KvFormats kv, plan::parse_kv_formats(text));
      caches.push_back(kv);
    }
  }
  std::vector<evaluate::Mode> modes;
  for (const std::string& name : split(command.formats)) {
    LLMC_TRY(const ir::WeightFormat format, parse_quant(name));
    std::vector<KvFormats> beside = caches;
    if (beside.empty()) beside.push_back(plan::default_kv_formats(format));
    for (const KvFormats kv : beside) {
      const evaluate::Mode mode{format, kv};
      if (std::ranges::count(modes, mode) == 0) modes.push_back(mode);
    }
  }
  return modes;
}

std::string bytes_text(std::uint64_t bytes) {
  return bytes == 0 ? std::string() : fmt::to_string(bytes);
}

/// Widths fit the longest names of formats and the numbers of large models.
Table compare_table(TableFormat format) {
  using Align = Column::Align;
  return Table(format, {{"weights", Align::kLeft, 7},
                        {"cache", Align::kLeft, 13},
                        {"weight bytes/token", Align::kRight, 18},
                        {"cache bytes/token", Align::kRight, 17},
                        {"perplexity", Align::kRight, 10},
                        {"+-", Align::kRight, 8, {}, "perplexity +-"},
                        {"KL, nats", Align::kRight, 9},
                        {"+-", Align::kRight, 8, {}, "KL +- nats"},
                        {"same top", Align::kRight, 9, "%"},
                        {"step, ms", Align::kRight, 9}});
}

std::vector<std::string> compare_cells(const evaluate::CompareRow& row) {
  const evaluate::PerplexityReport& q = row.quality;
  const evaluate::Divergence& d = *q.divergence;
  return {std::string(plan::weight_format_name(row.mode.quant)),
          plan::to_string(row.mode.kv),
          bytes_text(row.weight_bytes_per_token),
          bytes_text(row.cache_bytes_per_token),
          fmt::format("{:.4f}", q.perplexity.value),
          fmt::format("{:.4f}", q.perplexity.error),
          fmt::format("{:.6f}", d.kl.value),
          fmt::format("{:.6f}", d.kl.error),
          fmt::format("{:.2f}", d.same_top.value * 100),
          fmt::format("{:.3f}", row.step_seconds * 1e3)};
}

Json row_json(const evaluate::CompareRow& row) {
  const evaluate::PerplexityReport& q = row.quality;
  return Json{{"quant", plan::weight_format_name(row.mode.quant)},
              {"kv", plan::to_string(row.mode.kv)},
              {"weight_bytes_per_token", row.weight_bytes_per_token},
              {"cache_bytes_per_token", row.cache_bytes_per_token},
              {"perplexity", q.perplexity.value},
              {"perplexity_standard_error", q.perplexity.error},
              {"kl", to_json(*q.divergence)},
              {"step_seconds", row.step_seconds}};
}

Result<int> compare(const CompareCommand& command, const Globals& globals) {
  LLMC_TRY(const auto modes, modes_of(command));
  LLMC_TRY(const auto native, native_options(command.model, globals));
  LLMC_TRY(auto text, measured_text(command.text, command.model.model));
  evaluate::CompareOptions options{.native = native,
                                   .threads = command.threads,
                                   .text = std::move(text),
                                   .modes = modes,
                                   .steps = command.steps};
  LLMC_RETURN_IF_ERROR(fit_context(command.model, command.steps, options.text.windows,
                                   options.native.compile, globals));
  const bool json = globals.json || command.format == TableFormat::kJson;
  Progress line(globals);
  const Table table = compare_table(command.format);
  bool begun = false;
  // Print each row when it is complete: later ones may take long or fail.
  const auto row_done = [&](const evaluate::CompareRow& row) {
    line.clear();
    if (json) return;
    if (!begun) print(table.head());
    begun = true;
    print(table.row(compare_cells(row)));
    std::fflush(stdout);
  };
  LLMC_TRY(const auto rows, evaluate::compare_modes(options, progress_of(line), row_done));
  line.clear();
  const evaluate::CompareRow& first = rows.front();
  const std::int32_t bos = options.text.windows.bos;
  if (json) {
    Json result{{"model", command.model.model}, {"target", first.quality.target}};
    result.update(windows_json(command.text, first.quality, bos));
    result["steps"] = command.steps;
    result["depth"] = first.depth;
    result["rows"] = Json::array();
    for (const evaluate::CompareRow& row : rows) result["rows"].push_back(row_json(row));
    print_json(result);
    return 0;
  }
  note(globals,
       fmt::format("{}; {}. KL and same top: against f32 weights and an f32 cache. step: median "
                   "of {} after {} tokens",
                   first.quality.target, windows_text(command.text, first.quality, bos),
                   command.steps, first.depth));
  return 0;
}

}  // namespace

Action add_compare(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<CompareCommand>();
  add_model_options(app, command->model, ModelUse::kCompare);
  app.add_option("--quant", command->formats,
                 "Weight formats, such as q8,q4 (default: f32,f16,q8,q4)")
      ->type_name("LIST")
      ->group("Compilation");
  app.add_option(
         "--kv", command->caches,
         "KV cache formats, such as f32,int8,K=int8,V=fp8, where adjacent K= and V= are one "
         "format; may be repeated (default: f16; with f32 weights, f32)")
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->group("Compilation");
  add_text_options(app, command->text);
  add_threads(app, command->threads);
  add_whole_number(app, "--steps", command->steps, 1, plan::kMaxContext,
                   "Decode steps for the median step time (default: 64)");
  add_table_format(app, command->format);
  return [command, &globals] { return compare(*command, globals); };
}

}  // namespace llmc::cli
