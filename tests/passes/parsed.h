#pragma once

#include <string_view>

#include "compiler/ir/text.h"
#include "compiler/support/check.h"

namespace llmc::passes {

/// Returns the graph of `text`, which must be valid (LLMC_CHECK).
inline ir::Graph parsed(std::string_view text) {
  auto graph = ir::parse(text);
  LLMC_CHECK(graph.ok());
  return std::move(graph).value();
}

}  // namespace llmc::passes
