#include "compiler/quant/q4_matrix.h"

#include <algorithm>

#include "compiler/quant/block_fit.h"
#include "compiler/support/check.h"

namespace llmc::quant {
namespace {

// A row is S and M (two bytes each, little-endian), s and m of each block, and two codes in each
// byte, the first in the low bits.
constexpr std::size_t kHead = 4;

std::size_t blocks_of(std::size_t columns) {
  return (columns + kFitWidth - 1) / kFitWidth;
}
std::size_t row_bytes(std::size_t columns) {
  return kHead + 2 * blocks_of(columns) + (columns + 1) / 2;
}

}  // namespace

std::size_t Q4Matrix::bytes_of(std::size_t rows, std::size_t columns) {
  return rows * row_bytes(columns);
}

Q4Matrix::Q4Matrix(std::size_t rows, std::size_t columns)
    : rows_(rows),
      columns_(columns),
      own_(std::make_shared<std::vector<std::byte>>(bytes_of(rows, columns))),
      bytes_(*own_) {}

Q4Matrix::Q4Matrix(std::size_t rows, std::size_t columns, std::shared_ptr<const void> owner,
                   std::span<const std::byte> bytes)
    : rows_(rows), columns_(columns), owner_(std::move(owner)), bytes_(bytes) {
  LLMC_CHECK(bytes.size() == bytes_of(rows, columns));
}

void Q4Matrix::set(std::size_t index, const Q4Row& row) {
  LLMC_CHECK(own_ && index < rows_ && row.codes.size() == columns_);
  const std::size_t blocks = blocks_of(columns_);
  std::byte* to = own_->data() + index * row_bytes(columns_);
  for (const unsigned half : {unsigned{row.scale}, unsigned{row.min}}) {
    *to++ = static_cast<std::byte>(half & 0xff);
    *to++ = static_cast<std::byte>(half >> 8);
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    to[b] = std::byte{row.scales[b]};
    to[blocks + b] = std::byte{row.minimums[b]};
  }
  to += 2 * blocks;
  for (std::size_t k = 0; k < columns_; k += 2) {
    const unsigned second = k + 1 < columns_ ? row.codes[k + 1] : 0u;
    *to++ = static_cast<std::byte>(row.codes[k] | second << 4);
  }
}

void Q4Matrix::get(std::size_t index, Q4Row& row) const {
  LLMC_CHECK(index < rows_);
  const std::size_t blocks = blocks_of(columns_);
  const auto* from =
      reinterpret_cast<const std::uint8_t*>(bytes_.data()) + index * row_bytes(columns_);
  row.scale = static_cast<std::uint16_t>(from[0] | from[1] << 8);
  row.min = static_cast<std::uint16_t>(from[2] | from[3] << 8);
  from += kHead;
  row.scales.assign(from, from + blocks);
  row.minimums.assign(from + blocks, from + 2 * blocks);
  from += 2 * blocks;
  row.codes.resize(columns_);
  for (std::size_t k = 0; k < columns_; ++k)
    row.codes[k] = k % 2 == 0 ? from[k / 2] & 15 : from[k / 2] >> 4;
}

}  // namespace llmc::quant
