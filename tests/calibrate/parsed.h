#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/calibrate/calibrate.h"
#include "compiler/ir/text.h"
#include "compiler/quant/pack.h"

namespace llmc::calibrate {

inline ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse(text);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().first().message);
  return graph.ok() ? *std::move(graph) : ir::Graph();
}

/// Returns `count` windows of `length` made-up ids below `vocabulary`; the last one has `last` ids.
inline std::vector<std::vector<std::int32_t>> made_up_windows(std::size_t count, std::size_t length,
                                                              std::size_t last,
                                                              std::int32_t vocabulary) {
  std::vector<std::vector<std::int32_t>> windows(count);
  std::uint32_t state = 1;
  for (auto& window : windows)
    for (std::size_t i = 0; i < (&window == &windows.back() ? last : length); ++i)
      window.push_back(static_cast<std::int32_t>((state = state * 1664525u + 1013904223u) >> 8) %
                       vocabulary);
  return windows;
}

inline Matrices calibrated_for(const ir::Graph& graph,
                               const std::vector<std::vector<std::int32_t>>& windows,
                               std::size_t threads) {
  Options options;
  options.windows = windows;
  options.threads = threads;
  auto matrices = calibrate(graph, options);
  EXPECT_TRUE(matrices.ok()) << (matrices.ok() ? "" : matrices.error().first().message);
  return matrices.ok() ? *std::move(matrices) : Matrices();
}

inline std::vector<float> decoded(const quant::EncodedMatrix& matrix) {
  std::vector<float> values(matrix.rows() * matrix.columns());
  quant::unpack_panels(matrix.kind(), matrix.bytes(), matrix.columns(), values);
  return values;
}

}  // namespace llmc::calibrate
