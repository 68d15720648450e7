#pragma once

#include <vector>

#include "compiler/ir/constant.h"

namespace llmc::ir {

/// `count` rows of a constant from row `begin` on.
inline std::vector<float> rows_of(const Constant& c, std::int64_t begin, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count * c.dims().back()));
  c.read_rows(begin, count, out);
  return out;
}

}  // namespace llmc::ir
