#include "compiler/bench/gemm_operands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "compiler/bench/kernel_bench.h"
#include "compiler/driver/resources.h"
#include "compiler/plan/weights.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "llmc/quant/random.h"

namespace llmc::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxOperandBytes = std::uint64_t{4} << 30;

Result<GemmOperands::Block> allocate_block(std::uint64_t bytes) {
  const std::uint64_t size = round_up(std::max<std::uint64_t>(bytes, 1), kAlignment);
  GemmOperands::Block block(static_cast<unsigned char*>(std::aligned_alloc(kAlignment, size)));
  if (!block)
    return failure(ErrorKind::kOverBudget, fmt::format("cannot allocate {} bytes", size),
                   "use a smaller --shape");
  std::memset(block.get(), 0, size);
  return block;
}

struct Fill {
  const emit::GemmKernel& kernel;
  unsigned char* weights;
  std::uint32_t parts;

  /// Returns the first row of a part; no panel belongs to two parts.
  std::uint64_t row(std::uint64_t part) const {
    return std::min(kernel.rows, panel_count(kernel.rows) * part / parts * kPanelRows);
  }
};

}  // namespace

Result<GemmOperands> GemmOperands::create(const emit::GemmKernel& kernel) {
  GemmOperands result;
  result.weight_bytes = kernel.weight_bytes();
  result.x_floats = kernel.columns * kernel.tokens;
  result.y_floats = kernel.rows * kernel.tokens;
  LLMC_TRY(result.weights, allocate_block(result.weight_bytes));
  LLMC_TRY(result.x, allocate_block(result.x_floats * sizeof(float)));
  LLMC_TRY(result.y, allocate_block(result.y_floats * sizeof(float)));
  LLMC_TRY(result.work, allocate_block(kernel.work_bytes()));
  auto pool = hosted::ThreadPool::create(hosted::usable_cores());
  if (!pool.ok()) return failure(ErrorKind::kOverBudget, pool.failure().message, "");
  Fill fill{kernel, result.weights.get(), 8 * (*pool)->threads()};
  (*pool)->parallel_for(
      [](void* arg, std::uint32_t i) {
        const Fill& f = *static_cast<const Fill*>(arg);
        packing::fill_weight(f.kernel.kind, f.weights, f.kernel.columns, f.row(i), f.row(i + 1),
                             kGemmWeightSeed);
      },
      &fill, fill.parts);
  auto* const x = reinterpret_cast<float*>(result.x.get());
  for (std::size_t i = 0; i < result.x_floats; ++i) x[i] = packing::random_float(kGemmInputSeed, i);
  return result;
}

void GemmOperands::poison_result() {
  std::memset(y.get(), 0xff, y_floats * sizeof(float));
}

std::uint64_t GemmOperands::hash() const {
  return packing::hash_of(output(), y_floats);
}

Status check_memory(const emit::GemmKernel& kernel) {
  // Each size is below 2^20, so no sum or product here exceeds 64 bits.
  const std::uint64_t bytes = kernel.weight_bytes() + kernel.work_bytes() +
                              (kernel.rows + kernel.columns) * kernel.tokens * sizeof(float);
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  const std::uint64_t machine =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                            : kMaxOperandBytes;
  const std::uint64_t limit = std::min(kMaxOperandBytes, machine / 2);
  if (bytes <= limit) return ok_status();
  return failure(
      ErrorKind::kOverBudget,
      fmt::format(
          "{}x{}x{} in {} needs {} bytes of memory, more than the maximum of {} for a benchmark "
          "here",
          kernel.rows, kernel.columns, kernel.tokens, plan::to_string(kernel.kind), bytes, limit),
      "use a smaller --shape");
}

Status write_kernel_sources(const fs::path& folder, const std::string& source) {
  LLMC_RETURN_IF_ERROR(driver::write_resources(folder, driver::headers_for(source)));
  return write_file(folder / "gemm.cpp", source);
}

Status write_tiles(const fs::path& folder, const target::Target& target, const std::string& tiles) {
  LLMC_CHECK(!target.tiles.empty());
  return write_file(folder / driver::bundle_path(fmt::format("templates/{}", target.tiles)), tiles);
}

}  // namespace llmc::bench
