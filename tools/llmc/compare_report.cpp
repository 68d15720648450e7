#include "tools/llmc/compare_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/evaluate/quality_chart.h"
#include "compiler/plan/kv_format.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/counted.h"
#include "tools/llmc/text_options.h"

namespace llmc::cli {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  return bytes == 0 ? std::string() : fmt::to_string(bytes);
}

std::string bits_text(double bits) {
  return bits == 0 ? std::string() : fmt::format("{:.2f}", bits);
}

std::string peer_name(const evaluate::PeerFile& peer, const evaluate::PeerRow& row) {
  return peer.program + " " + row.name;
}

/// Values of a row's cells, for rows of llmc and of peers.
struct Cells {
  std::string weights, cache;
  std::uint64_t bytes, bytes_per_token;
  std::string cache_bytes;
  evaluate::Estimate perplexity, kl;
  double same_top;
  std::string step;
};

std::vector<std::string> texts(const Cells& cells, const evaluate::Comparison& comparison) {
  return {cells.weights,
          cells.cache,
          bytes_text(cells.bytes),
          bytes_text(cells.bytes_per_token),
          bits_text(comparison.bits_per_weight(cells.bytes_per_token)),
          cells.cache_bytes,
          fmt::format("{:.4f}", cells.perplexity.value),
          fmt::format("{:.4f}", cells.perplexity.error),
          fmt::format("{:.6f}", cells.kl.value),
          fmt::format("{:.6f}", cells.kl.error),
          fmt::format("{:.2f}", cells.same_top * 100),
          cells.step};
}

Json row_json(const evaluate::CompareRow& row, double bits) {
  const evaluate::PerplexityReport& q = row.quality;
  return Json{
      {"quant", row.mode.weights_text()},  {"kv", plan::to_string(row.mode.kv)},
      {"weight_bytes", row.weight_bytes},  {"weight_bytes_per_token", row.weight_bytes_per_token},
      {"bits_per_weight", bits},           {"cache_bytes_per_token", row.cache_bytes_per_token},
      {"perplexity", q.perplexity.value},  {"perplexity_standard_error", q.perplexity.error},
      {"kl", cli::to_json(*q.divergence)}, {"step_seconds", row.step_seconds}};
}

Json row_json(const evaluate::PeerRow& row, double bits) {
  return Json{{"name", row.name},
              {"weight_bytes", row.weight_bytes},
              {"weight_bytes_per_token", row.weight_bytes_per_token},
              {"bits_per_weight", bits},
              {"perplexity", row.perplexity.value},
              {"perplexity_standard_error", row.perplexity.error},
              {"kl", row.kl.value},
              {"kl_standard_error", row.kl.error},
              {"same_top", row.same_top}};
}

}  // namespace

Table compare_table(TableFormat format, std::span<const evaluate::Mode> modes, Peers peers) {
  using Align = Column::Align;
  std::size_t widest = 7;
  for (const evaluate::Mode& mode : modes) widest = std::max(widest, mode.weights_text().size());
  for (const evaluate::PeerFile& peer : peers) {
    for (const evaluate::PeerRow& row : peer.rows)
      widest = std::max(widest, peer_name(peer, row).size());
  }
  return Table(format, {{"weights", Align::kLeft, widest},
                        {"cache", Align::kLeft, 13},
                        {"weight bytes", Align::kRight, 12},
                        {"weight bytes/token", Align::kRight, 18},
                        {"bits/weight", Align::kRight, 11},
                        {"cache bytes/token", Align::kRight, 17},
                        {"perplexity", Align::kRight, 10},
                        {"+-", Align::kRight, 8, {}, "perplexity +-"},
                        {"KL, nats", Align::kRight, 9},
                        {"+-", Align::kRight, 8, {}, "KL +- nats"},
                        {"same top", Align::kRight, 9, "%"},
                        {"step, ms", Align::kRight, 9}});
}

std::vector<std::string> compare_cells(const evaluate::Comparison& comparison) {
  const evaluate::CompareRow& row = comparison.rows.back();
  return texts({.weights = row.mode.weights_text(),
                .cache = plan::to_string(row.mode.kv),
                .bytes = row.weight_bytes,
                .bytes_per_token = row.weight_bytes_per_token,
                .cache_bytes = bytes_text(row.cache_bytes_per_token),
                .perplexity = row.quality.perplexity,
                .kl = row.quality.divergence->kl,
                .same_top = row.quality.divergence->same_top.value,
                .step = fmt::format("{:.3f}", row.step_seconds * 1e3)},
               comparison);
}

std::vector<std::string> peer_cells(const evaluate::PeerFile& peer, const evaluate::PeerRow& row,
                                    const evaluate::Comparison& comparison) {
  return texts({.weights = peer_name(peer, row),
                .cache = peer.cache,
                .bytes = row.weight_bytes,
                .bytes_per_token = row.weight_bytes_per_token,
                .cache_bytes = {},
                .perplexity = row.perplexity,
                .kl = row.kl,
                .same_top = row.same_top,
                .step = {}},
               comparison);
}

Json rows_json(const evaluate::Comparison& comparison, Peers peers) {
  Json json{{"rows", Json::array()}};
  for (const evaluate::CompareRow& row : comparison.rows)
    json["rows"].push_back(row_json(row, comparison.bits_per_weight(row.weight_bytes_per_token)));
  for (const evaluate::PeerFile& peer : peers) {
    Json rows = Json::array();
    for (const evaluate::PeerRow& row : peer.rows)
      rows.push_back(row_json(row, comparison.bits_per_weight(row.weight_bytes_per_token)));
    json["peers"].push_back(
        Json{{"program", peer.program}, {"cache", peer.cache}, {"rows", std::move(rows)}});
  }
  return json;
}

Result<std::string> compare_chart(const evaluate::Comparison& comparison, Peers peers,
                                  const std::string& model) {
  const std::vector<evaluate::CompareRow>& rows = comparison.rows;
  const bool one_cache = std::ranges::all_of(
      rows, [&](const evaluate::CompareRow& row) { return row.mode.kv == rows.front().mode.kv; });
  std::vector<evaluate::ChartPoint> points;
  std::string undrawn;
  const auto add = [&](std::string series, std::string name, std::uint64_t bytes, double kl) {
    // The divergence of a row that equals the base is 0 or a rounding error.
    if (kl > 0 && bytes > 0) {
      points.push_back({std::move(series), std::move(name), static_cast<double>(bytes), kl});
    } else {
      undrawn += (undrawn.empty() ? "; not drawn, KL 0: " : ", ") + name;
    }
  };
  for (const evaluate::CompareRow& row : rows) {
    std::string name(row.mode.weights_text());
    if (!one_cache) name += " " + plan::to_string(row.mode.kv);
    add("llmc", std::move(name), row.weight_bytes_per_token, row.quality.divergence->kl.value);
  }
  for (const evaluate::PeerFile& peer : peers) {
    for (const evaluate::PeerRow& row : peer.rows)
      add(peer.program, row.name, row.weight_bytes_per_token, row.kl.value);
  }
  if (points.empty()) {
    return usage_error("--svg: no row has a KL divergence to draw",
                       "add formats that differ from f32, such as --quant q8,q4");
  }
  const std::string cache =
      one_cache ? ", cache " + plan::to_string(rows.front().mode.kv) : std::string();
  return evaluate::quality_chart(
      "Weight formats of " + printable(model, 50),
      fmt::format("{}{}{}", counted(rows.front().quality.predicted, "token"), cache, undrawn),
      points);
}

}  // namespace llmc::cli
