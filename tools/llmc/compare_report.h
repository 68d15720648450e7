#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/evaluate/compare.h"
#include "compiler/evaluate/peer_file.h"
#include "tools/llmc/cli.h"
#include "tools/llmc/table.h"

/// Output of `llmc compare`, with results of other programs (peers): table rows, JSON and chart.
namespace llmc::cli {

using Peers = std::span<const evaluate::PeerFile>;

/// Returns the table without rows. Its columns fit the names of the modes and of the peers'
/// formats, and the numbers of large models.
Table compare_table(TableFormat format, std::span<const evaluate::Mode> modes, Peers peers);

/// Return the cells of the comparison's last row, and of a peer's row.
std::vector<std::string> compare_cells(const evaluate::Comparison& comparison);
std::vector<std::string> peer_cells(const evaluate::PeerFile& peer, const evaluate::PeerRow& row,
                                    const evaluate::Comparison& comparison);

/// Returns the fields "rows" and, if there are peers, "peers".
Json rows_json(const evaluate::Comparison& comparison, Peers peers);

/// Returns a chart of all rows as SVG; `model`: its name. Fails with kUsage if no row has a
/// divergence to draw.
Result<std::string> compare_chart(const evaluate::Comparison& comparison, Peers peers,
                                  const std::string& model);

}  // namespace llmc::cli
