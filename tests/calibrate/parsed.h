#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/ir/text.h"
#include "compiler/quant/pack.h"

namespace llmc::calibrate {

inline ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse(text);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().first().message);
  return graph.ok() ? *std::move(graph) : ir::Graph();
}

inline std::vector<float> decoded(const quant::EncodedMatrix& matrix) {
  std::vector<float> values(matrix.rows() * matrix.columns());
  quant::unpack_panels(matrix.kind(), matrix.bytes(), matrix.columns(), values);
  return values;
}

}  // namespace llmc::calibrate
