#include "compiler/ir/hadamard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "compiler/ir/constant_data.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/support/check.h"

namespace llmc::ir {
namespace {

constexpr std::size_t kSmallestGroup = 32;

/// Calls visit(columns of a group) for all groups of a row that are transformed.
template <class Visit>
void for_groups(std::span<float> row, std::int64_t superblock, Visit visit) {
  for (std::size_t begin = 0; begin < row.size();) {
    const std::size_t columns = std::min(static_cast<std::size_t>(superblock), row.size() - begin);
    const auto n = static_cast<std::size_t>(hadamard_size(static_cast<std::int64_t>(columns)));
    for (std::size_t k = 0; n > 1 && k < columns; k += n) visit(row.subspan(begin + k, n));
    begin += columns;
  }
}

void transform(std::span<float> x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    const bool upper = n >= 4 * kSmallestGroup && i >= n / 4 * 3;
    if (((i & 24) == 24) != upper) x[i] = -x[i];
  }
  for (std::size_t h = n / 2; h > 0; h /= 2)
    for (std::size_t i = 0; i < n; i += 2 * h)
      for (std::size_t j = i; j < i + h; ++j) {
        const float u = x[j], v = x[j + h];
        x[j] = u + v;
        x[j + h] = u - v;
      }
}

/// Returns the factor of the transformed inputs, 2^-e with e = floor(log2(n) / 2).
float input_scale(std::size_t n) {
  float scale = 1;
  for (; n >= 4; n /= 4) scale *= 0.5f;
  return scale;
}

class HadamardConstant final : public Constant, public PagedConstant {
 public:
  HadamardConstant(ConstantPtr source, std::int64_t superblock)
      : Constant(ElementType::kF32, source->dims()),
        source_(std::move(source)),
        superblock_(superblock) {}

  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    source_->read_rows(begin, count, out);
    const auto columns = static_cast<std::size_t>(dims()[1]);
    for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r)
      for_groups(out.subspan(r * columns, columns), superblock_, [&](std::span<float> group) {
        const auto is_finite = [](float w) { return std::isfinite(w); };
        // Packing rejects a weight that is not finite and names its position, so keep it.
        if (!std::ranges::all_of(group, is_finite)) return;
        const float scale = 1.0f / (static_cast<float>(group.size()) * input_scale(group.size()));
        for (float& w : group) w *= scale;
        transform(group);
      });
  }
  std::vector<std::byte> bytes() const override {
    std::vector<float> values(static_cast<std::size_t>(element_count()));
    read_rows(0, dims()[0], values);
    const auto all = std::as_bytes(std::span(values));
    return {all.begin(), all.end()};
  }
  ConstantPtr source_of_floats() const override { return source_->source_of_floats(); }
  void drop_pages() const override { ir::drop_pages(*source_); }
  int element_bits() const override { return source_->element_bits(); }
  std::string describe() const override {
    return "hadamard(" + typed_text(*source_) + ", " + std::to_string(superblock_) + ")";
  }

 private:
  ConstantPtr source_;
  std::int64_t superblock_;
};

}  // namespace

std::int64_t hadamard_size(std::int64_t columns) {
  const std::int64_t power = columns & -columns;
  return power < static_cast<std::int64_t>(kSmallestGroup) ? 1 : power;
}

bool has_hadamard_basis(std::int64_t columns, std::int64_t superblock) {
  return hadamard_size(columns % superblock) > 1 ||
         (columns >= superblock && hadamard_size(superblock) > 1);
}

void hadamard_input(std::span<float> row, std::int64_t superblock) {
  for_groups(row, superblock, [](std::span<float> group) {
    transform(group);
    const float scale = input_scale(group.size());
    for (float& x : group) x *= scale;
  });
}

ConstantPtr hadamard_weight(ConstantPtr matrix, std::int64_t superblock) {
  LLMC_CHECK(matrix && matrix->dims().size() == 2 && superblock > 0);
  return std::make_shared<HadamardConstant>(std::move(matrix), superblock);
}

}  // namespace llmc::ir
