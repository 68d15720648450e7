#include "compiler/evaluate/compare.h"

#include <gtest/gtest.h>

namespace llmc::evaluate {
namespace {

TEST(Mode, ABudgetIsTheSameInAnyUnit) {
  const Mode in_mebibytes{.fit = 1 << 20, .fit_text = "1MiB"};
  EXPECT_EQ(in_mebibytes, (Mode{.fit = 1 << 20, .fit_text = "1048576B"}));
  EXPECT_NE(in_mebibytes, (Mode{.fit = 1 << 21, .fit_text = "2MiB"}));
  EXPECT_NE(in_mebibytes, (Mode{.max_kl = 0.5}));
  EXPECT_NE(Mode{}, (Mode{.quant = ir::WeightFormat::kQ8}));
  EXPECT_NE(Mode{}, (Mode{.kv = {KvFormat::kInt8, KvFormat::kInt8}}));
}

}  // namespace
}  // namespace llmc::evaluate
