#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "compiler/evaluate/compare.h"
#include "compiler/plan/kv_format.h"
#include "compiler/support/counted.h"
#include "compiler/support/file.h"
#include "tools/llmc/compare_report.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"
#include "tools/llmc/text_options.h"

namespace llmc::cli {
namespace {

struct CompareCommand {
  ModelOptions model;
  TextOptions text;
  std::string formats = "f32,f16,q8,q4m";
  std::vector<std::string> caches;
  std::uint32_t threads = 0, steps = 64;
  std::vector<std::string> peers;  // paths of files
  std::string svg;                 // path of the chart's file; empty: no chart
  TableFormat format = TableFormat::kText;
};

/// Splits a list of cache formats: "f32,K=int8,V=fp8" gives "f32" and "K=int8,V=fp8". Adjacent
/// formats of keys and of values form one cache format.
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

/// Returns every combination of a weight format and a cache format, without duplicates.
Result<std::vector<evaluate::Mode>> modes_of(const CompareCommand& command) {
  std::vector<KvFormats> caches;
  for (const std::string& list : command.caches) {
    for (const std::string& text : split_caches(list)) {
      LLMC_TRY(const KvFormats kv, plan::parse_kv_formats(text));
      caches.push_back(kv);
    }
  }
  std::vector<evaluate::Mode> modes;
  const auto add = [&](evaluate::Mode mode) {
    std::vector<KvFormats> beside = caches;
    if (beside.empty()) beside.push_back(plan::default_kv_formats(mode.quant.format));
    for (const KvFormats kv : beside) {
      mode.kv = kv;
      if (std::ranges::count(modes, mode) == 0) modes.push_back(mode);
    }
  };
  for (const std::string& name : split(command.formats)) {
    LLMC_TRY(const passes::QuantScheme format, parse_quant(name));
    add({.quant = format});
  }
  const BudgetOptions& budget = command.model.budget;
  for (const std::string& size :
       budget.has_fit() ? split(budget.fit) : std::vector<std::string>()) {
    LLMC_TRY(const std::uint64_t fit, parse_fit(size));
    add({.fit = fit, .fit_text = size});
  }
  for (const std::string& nats :
       budget.has_max_kl() ? split(budget.max_kl) : std::vector<std::string>()) {
    LLMC_TRY(const double max_kl, parse_max_kl(nats));
    add({.max_kl = max_kl});
  }
  return modes;
}

/// Checks --svg before anything is compiled: the file must be writable, and a mode must differ from
/// the base.
Status check_svg(const CompareCommand& command, const std::vector<evaluate::Mode>& modes) {
  if (command.svg.empty()) return ok_status();
  LLMC_RETURN_IF_ERROR(check_output_file("--svg", command.svg));
  const evaluate::Mode base{.quant = ir::WeightFormat::kF32, .kv = {}};
  const auto differs = [&](const evaluate::Mode& mode) { return mode != base; };
  if (!command.peers.empty() || std::ranges::any_of(modes, differs)) return ok_status();
  return usage_error("--svg: f32 weights with an f32 cache have no KL divergence to draw",
                     "add formats to --quant or --kv, such as --quant f32,q8,q4");
}

Result<std::vector<evaluate::PeerFile>> read_peers(const CompareCommand& command) {
  std::vector<evaluate::PeerFile> peers;
  for (const std::string& file : command.peers) {
    LLMC_TRY(auto peer, evaluate::read_peer_file(file));
    peers.push_back(std::move(peer));
  }
  return peers;
}

/// Fails with kBadInput if a peer did not count as many tokens as llmc.
Status check_tokens(const CompareCommand& command, Peers peers, std::uint64_t predicted) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (peers[i].predicted == predicted) continue;
    return file_failure(ErrorKind::kBadInput, command.peers[i],
                        fmt::format("was measured on {}, not on {}",
                                    counted(peers[i].predicted, "token"), predicted),
                        "measure both on the same text with the same windows");
  }
  return ok_status();
}

bool rounds_weights(const evaluate::Mode& mode) {
  return mode.has_budget() || ir::is_quantized(mode.quant.format);
}

Result<int> compare(const CompareCommand& command, const Globals& globals) {
  LLMC_TRY(const auto modes, modes_of(command));
  LLMC_RETURN_IF_ERROR(check_svg(command, modes));
  LLMC_TRY(const auto peers, read_peers(command));
  LLMC_TRY(auto native, native_options(command.model, globals));
  if (native.compile.calibration && std::ranges::none_of(modes, rounds_weights)) {
    remark(globals, "--calibrate has no effect: no format of --quant rounds weights");
    native.compile.calibration.reset();
  }
  LLMC_TRY(auto text, measured_text(command.text, command.model, globals));
  evaluate::CompareOptions options{.native = native,
                                   .threads = command.threads,
                                   .text = std::move(text),
                                   .modes = modes,
                                   .budget_text = measuring_text(native.compile),
                                   .steps = command.steps};
  LLMC_RETURN_IF_ERROR(
      fit_context(command.model, command.steps, options.text, options.native.compile, globals));
  const bool json = globals.json || command.format == TableFormat::kJson;
  Progress line(globals);
  const Table table = compare_table(command.format, modes, peers);
  // Print each row when it is complete, because later rows may take long or fail.
  const auto row_done = [&](const evaluate::Comparison& so_far) -> Status {
    line.clear();
    LLMC_RETURN_IF_ERROR(check_tokens(command, peers, so_far.rows.front().quality.predicted));
    if (json) return ok_status();
    if (so_far.rows.size() == 1) print(table.head());
    print(table.row(compare_cells(so_far)));
    std::fflush(stdout);
    return ok_status();
  };
  LLMC_TRY(const auto compared, evaluate::compare_modes(options, progress_of(line), row_done));
  line.clear();
  if (!command.svg.empty()) {
    LLMC_TRY(const std::string svg,
             compare_chart(compared, peers, last_component(command.model.model)));
    LLMC_RETURN_IF_ERROR(replace_file(command.svg, svg));
  }
  for (const evaluate::CompareRow& row : compared.rows)
    if (row.mode.fit == 0 && row.mode.max_kl == 0)
      note_kept_codes(globals, row.quality.rounding, row.mode.weights_text(),
                      native.compile.requantize);
  const evaluate::CompareRow& first = compared.rows.front();
  const std::int32_t bos = options.text.windows.bos;
  if (json) {
    Json result{{"model", command.model.model}, {"target", first.quality.target}};
    result.update(windows_json(command.text, first.quality, bos));
    result["steps"] = command.steps;
    result["depth"] = first.depth;
    result.update(rows_json(compared, peers));
    print_json(result);
    return 0;
  }
  for (const evaluate::PeerFile& peer : peers) {
    for (const evaluate::PeerRow& row : peer.rows)
      print(table.row(peer_cells(peer, row, compared)));
  }
  const auto& calibration = native.compile.calibration;
  const std::string calibrated =
      calibration ? "; calibrated with " + printable(calibration->source) : std::string();
  note(globals,
       fmt::format("{}; {}{}. KL and same top: against f32 weights and an f32 cache. step: median "
                   "of {} after {}",
                   first.quality.target, windows_text(command.text, first.quality, bos), calibrated,
                   command.steps, counted(first.depth, "token")));
  if (!peers.empty()) note(globals, "KL and same top of other programs: against their own f32");
  if (!command.svg.empty()) note(globals, "chart: " + command.svg);
  return 0;
}

}  // namespace

Action add_compare(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<CompareCommand>();
  add_model_options(app, command->model, ModelUse::kCompare);
  app.add_option("--quant", command->formats,
                 "Weight formats, such as q8,q4 (default: f32,f16,q8,q4m)")
      ->type_name("LIST")
      ->group("Compilation");
  app.add_option(
         "--kv", command->caches,
         "KV cache formats, such as f32,int8,K=int8,V=fp8, where adjacent K= and V= are one "
         "format; may be repeated (default: f16; with f32 weights, f32)")
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->group("Compilation");
  add_text_options(app, command->text, command->model);
  add_threads(app, command->threads);
  add_whole_number(app, "--steps", command->steps, 1, plan::kMaxContext,
                   "Decode steps for the median step time (default: 64)");
  app.add_option("--peer", command->peers,
                 "File with another program's formats, measured by tools/peers/quality.py on the "
                 "same tokens; may be repeated")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--svg", command->svg, "File for a chart of KL divergence against bytes")
      ->type_name("FILE");
  add_table_format(app, command->format);
  return [command, &globals] { return compare(*command, globals); };
}

}  // namespace llmc::cli
