#include "compiler/plan/code_size.h"

#include <gtest/gtest.h>

#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

std::uint64_t code_of(const target::Target* target, ir::WeightFormat format, KvFormats kv) {
  PlanOptions options;
  options.target = target;
  options.kv = kv;
  options.name = "tiny";
  options.ctx = 64;
  const auto plan = make_plan(tests::stage_graph({.quant = format}), options);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? plan->code_bytes : 0;
}

TEST(CodeSize, EveryTargetWasMeasuredAtEveryLevel) {
  for (const target::Target& target : target::all()) {
    for (std::uint32_t level = 1; level <= target::kMaxOptLevel; ++level) {
      const auto found = target::find(target.name, level);
      ASSERT_TRUE(found.ok());
      const std::uint64_t plain = code_of(*found, ir::WeightFormat::kF32, {});
      EXPECT_GT(plain, 40u << 10) << target.name << " " << level;
      EXPECT_GT(code_of(*found, ir::WeightFormat::kQ4, {}), plain) << target.name << " " << level;
      EXPECT_GT(code_of(*found, ir::WeightFormat::kF32, {KvFormat::kInt8, KvFormat::kFp8}), plain)
          << target.name << " " << level;
    }
  }
}

}  // namespace
}  // namespace llmc::plan
