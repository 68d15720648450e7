#pragma once

#include <string>
#include <vector>

/// Draws the quality of weight formats against their size.
namespace llmc::evaluate {

/// A weight format in the chart.
struct ChartPoint {
  std::string series;  // the program, for the legend
  std::string name;    // of the format
  double bytes = 0;    // weights read per token; finite, >= 1
  double kl = 0;       // nats; finite, > 0, because the axis is logarithmic
};

/// Returns an SVG document with KL divergence against bytes. Each series has a colour and a marker;
/// they repeat after six series. Texts are escaped; there are no scripts, fonts or references to
/// other files, and the colours suit light and dark backgrounds. Requires at least one point.
std::string quality_chart(const std::string& title, const std::string& subtitle,
                          const std::vector<ChartPoint>& points);

}  // namespace llmc::evaluate
