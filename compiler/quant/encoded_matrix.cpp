#include "compiler/quant/encoded_matrix.h"

#include <utility>

#include "compiler/support/check.h"

namespace llmc::quant {

EncodedMatrix::EncodedMatrix(WeightKind kind, std::size_t rows, std::size_t columns)
    : kind_(kind),
      rows_(rows),
      columns_(columns),
      own_(std::make_shared<std::vector<std::byte>>(weight_bytes(kind, rows, columns))),
      bytes_(*own_) {}

EncodedMatrix::EncodedMatrix(WeightKind kind, std::size_t rows, std::size_t columns,
                             std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
    : kind_(kind), rows_(rows), columns_(columns), owner_(std::move(owner)), bytes_(bytes) {
  LLMC_CHECK(bytes.size() == weight_bytes(kind, rows, columns));
}

std::span<const std::byte> EncodedMatrix::panels(std::size_t first, std::size_t count) const {
  LLMC_CHECK(first % kPanelRows == 0 && count <= rows_ && first <= rows_ - count);
  const std::size_t panel = weight_panel_bytes(kind_, columns_);
  return bytes_.subspan(first / kPanelRows * panel, panel_count(count) * panel);
}

std::span<std::byte> EncodedMatrix::panels(std::size_t first, std::size_t count) {
  LLMC_CHECK(own_);
  const auto part = std::as_const(*this).panels(first, count);
  return std::span(*own_).subspan(static_cast<std::size_t>(part.data() - own_->data()),
                                  part.size());
}

}  // namespace llmc::quant
