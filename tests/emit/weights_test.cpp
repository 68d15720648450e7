#include "compiler/emit/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <new>

#include "compiler/ir/constant_pages.h"
#include "compiler/plan/plan.h"
#include "compiler/quant/pack.h"
#include "compiler/support/file.h"
#include "tests/plan/stage_graph.h"
#include "tests/support/temporary_folder.h"

namespace llmc::emit {
namespace {

using plan::PackedWeight;
using plan::WeightUse;
using ::testing::HasSubstr;

plan::Plan weights_plan(const ir::Graph& graph) {
  plan::PlanOptions options;
  options.target = *target::find("generic");
  options.name = "tiny";
  auto plan = plan::make_plan(graph, options);
  EXPECT_TRUE(plan.ok());
  return *std::move(plan);
}

std::vector<std::byte> written(const plan::Plan& plan) {
  std::vector<std::byte> bytes;
  const Status status =
      write_weights(plan.program, plan.weights_bytes, [&](std::span<const std::byte> data) {
        bytes.insert(bytes.end(), data.begin(), data.end());
        return ok_status();
      });
  EXPECT_TRUE(status.ok());
  return bytes;
}

/// One weight matrix of `rows` x `columns` as a program of its own.
plan::Program single(ir::ConstantPtr data, WeightKind kind) {
  PackedWeight weight;
  weight.use = WeightUse::kMatrix;
  weight.matrix = kind;
  weight.rows = static_cast<std::uint64_t>(data->dims()[0]);
  weight.columns = static_cast<std::uint64_t>(data->dims()[1]);
  weight.data = std::move(data);
  weight.name = "/layers.3/w";
  plan::Program program;
  program.weights.push_back(std::move(weight));
  EXPECT_TRUE(plan::lay_out(program.weights).ok());
  return program;
}

std::uint64_t weights_end(const plan::Program& program) {
  const PackedWeight& last = program.weights.back();
  return round_up(last.offset + last.bytes, kAlignment);
}

TEST(WriteWeights, EveryWeightIsWhereThePlanSays) {
  for (const auto format : {ir::WeightFormat::kF32, ir::WeightFormat::kQ4}) {
    const plan::Plan plan = weights_plan(tests::stage_graph({.quant = format}));
    const std::vector<std::byte> bytes = written(plan);
    ASSERT_EQ(bytes.size(), plan.weights_bytes);
    for (const PackedWeight& w : plan.program.weights) {
      if (w.use != WeightUse::kMatrix) continue;
      std::vector<float> values(w.packed_rows * w.columns);
      quant::unpack_panels(w.matrix, std::span(bytes).subspan(w.offset, w.bytes), w.columns,
                           values);
      const auto order = plan::packed_row_order(w);
      std::vector<float> source(w.rows * w.columns);
      w.data->read_rows(0, static_cast<std::int64_t>(w.rows), source);
      float worst = 0;
      for (std::size_t r = 0; r < order.size(); ++r) {
        for (std::size_t c = 0; c < w.columns; ++c) {
          const float expected =
              order[r] < 0 ? 0.0f : source[static_cast<std::size_t>(order[r]) * w.columns + c];
          worst = std::max(worst, std::fabs(values[r * w.columns + c] - expected));
        }
      }
      // Uniform weights in [-scale, scale): 4 bits leave half a step of 2 * scale / 15, 6 bits at
      // most a step of 2 * scale / 63 (the largest weight may be clipped).
      const float bound = w.matrix == WeightKind::kF32         ? 0.0f
                          : w.matrix == coded_weight(kSixBits) ? 0.016f
                                                               : 0.03f;
      EXPECT_LE(worst, bound) << w.label;
    }
  }
}

TEST(WriteWeights, LargeMatricesInPiecesAreTheSameBytes) {
  // Several groups on two threads against one call of the packer.
  const auto data = ir::make_random({3000, 700}, 7, 0.5);
  const plan::Program program = single(data, WeightKind::kQ8);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(write_weights(program, plan::PackedWeight(program.weights[0]).bytes,
                            [&](std::span<const std::byte> part) {
                              bytes.insert(bytes.end(), part.begin(), part.end());
                              return ok_status();
                            })
                  .ok());
  std::vector<float> values(3000 * 700);
  data->read_rows(0, 3000, values);
  std::vector<std::byte> expected(weight_bytes(WeightKind::kQ8, 3000, 700));
  ASSERT_TRUE(quant::pack_panels(WeightKind::kQ8, values, 700, 0, expected).ok());
  EXPECT_TRUE(bytes == expected);
}

/// Data that cannot be read: memory runs out on whatever thread comes to row 1024.
class OutOfMemory final : public ir::Constant {
 public:
  OutOfMemory() : Constant(ir::ElementType::kF32, {8192, 1024}) {}
  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    if (begin <= 1024 && 1024 < begin + count) throw std::bad_alloc();
    std::ranges::fill(out, 0.5f);
  }
  std::vector<std::byte> bytes() const override { return {}; }
  std::string describe() const override { return "out_of_memory"; }
};

TEST(WriteWeights, MemoryThatRunsOutInAThreadIsAnError) {
  const plan::Program program = single(std::make_shared<OutOfMemory>(), WeightKind::kQ8);
  const Status status = write_weights(program, program.weights[0].bytes,
                                      [](std::span<const std::byte>) { return ok_status(); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().message, "out of memory");
  EXPECT_EQ(status.error().first().node, "/layers.3/w");
}

TEST(WriteWeights, NamesTheTensorThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
    for (const WeightKind kind : {WeightKind::kF32, WeightKind::kF16, WeightKind::kQ8,
                                  coded_weight(kSixBits), WeightKind::kQ4}) {
      std::vector<float> values(16 * 40, 0.5f);
      values[13 * 40 + 7] = bad;
      const plan::Program program = single(ir::make_f32({16, 40}, std::move(values)), kind);
      const Status status = write_weights(program, program.weights[0].bytes,
                                          [](std::span<const std::byte>) { return ok_status(); });
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().first().kind, ErrorKind::kBadInput);
      EXPECT_EQ(status.error().first().node, "/layers.3/w");
    }
  }
}

TEST(WriteWeights, PassesOnWhatTheSinkFailsWith) {
  const plan::Plan plan = weights_plan(tests::stage_graph({.quant = ir::WeightFormat::kQ8}));
  std::size_t calls = 0;
  const Status status =
      write_weights(plan.program, plan.weights_bytes, [&](std::span<const std::byte>) -> Status {
        if (++calls < 4) return ok_status();
        Diagnostic full;
        full.message = "disk full";
        return full;
      });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().first().message, HasSubstr("disk full"));
}

TEST(WriteWeights, ProgressEndsAtTheTotal) {
  const plan::Plan plan = weights_plan(tests::stage_graph());
  std::uint64_t last = 0;
  ASSERT_TRUE(write_weights(
                  plan.program, plan.weights_bytes,
                  [](std::span<const std::byte>) { return ok_status(); },
                  [&](std::uint64_t done, std::uint64_t total) {
                    EXPECT_GE(done, last);
                    EXPECT_EQ(total, plan.weights_bytes);
                    last = done;
                  })
                  .ok());
  EXPECT_EQ(last, plan.weights_bytes);
}

/// Bytes of this process that are in memory.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// 512 MiB of f16 in the shape of a head, of which no more than a part may ever be mapped: rows of
// the packed matrix are columns of the file, so every page is read for many groups of rows, and
// with a page the system maps its neighbours (64 KiB of a row's 512).
TEST(WriteWeights, KeepsLittleOfALargeFileInMemory) {
  constexpr std::int64_t kInputs = 1024, kOutputs = 131072;
  constexpr std::uint64_t kBytes = std::uint64_t{2} * kInputs * kOutputs;
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "weights";
  ASSERT_TRUE(write_file(path, std::string_view()).ok());
  std::filesystem::resize_file(path, kBytes);  // zeros that take no disk
  const auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  // Read by single pages: a system that reads 2 MiB at a time may map all of it with one of them.
  const auto bytes = (*mapped)->bytes();
  ASSERT_EQ(::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_RANDOM), 0);
  const auto source = ir::make_mapped_file(ir::ElementType::kF16, {kInputs, kOutputs}, *mapped,
                                           (*mapped)->bytes(), "w");
  const plan::Program program = single(ir::transposed(source), WeightKind::kQ4);
  const std::uint64_t before = resident_bytes();
  if (before == 0) GTEST_SKIP() << "no /proc/self/statm";
  std::uint64_t most = 0, written = 0;
  const Status status =
      write_weights(program, weights_end(program), [&](std::span<const std::byte> data) {
        written += data.size();
        most = std::max(most, resident_bytes());
        return ok_status();
      });
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(written, weights_end(program));
  EXPECT_LT(most - std::min(most, before), kBytes / 2);
}

}  // namespace
}  // namespace llmc::emit
