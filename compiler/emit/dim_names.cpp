#include "compiler/emit/dim_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/identifier.h"

namespace llmc::emit {

DimNames::DimNames(const plan::Program& program) : dims_(program.open_dims) {
  dims_.insert(dims_.end(), program.quotients.begin(), program.quotients.end());
  for (const plan::OpenDimPtr& dim : dims_) {
    std::string stem = resembling_identifier(dim->name);
    if (stem.empty()) stem = "size";
    identifiers_.push_back(numbered(stem, [&](const std::string& name) {
      return std::ranges::find(identifiers_, name) == identifiers_.end();
    }));
    by_dim_.emplace(dim.get(), identifiers_.back());
  }
}

std::string DimNames::plain_text(const plan::Size& size) const {
  return size.text([&](const plan::OpenDim& dim) {
    return dim.numerator ? fmt::format("floor(({})/{})", plain_text(*dim.numerator), dim.divisor)
                         : by_dim_.at(&dim);
  });
}

std::string DimNames::text(const plan::Size& size) const {
  return size.text([&](const plan::OpenDim& dim) { return variable(by_dim_.at(&dim)); });
}

std::string DimNames::quotient_lines() const {
  std::string lines;
  for (std::size_t i = 0; i < dims_.size(); ++i)
    if (const plan::OpenDim& dim = *dims_[i]; dim.numerator)
      lines += fmt::format("  const int64_t {} = {} / {};\n", variable(identifiers_[i]),
                           factor(*dim.numerator), dim.divisor);
  return lines;
}

std::string DimNames::factor(const plan::Size& size) const {
  return size.term_count() > 1 ? "(" + text(size) + ")" : text(size);
}

}  // namespace llmc::emit
