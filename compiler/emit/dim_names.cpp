#include "compiler/emit/dim_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/identifier.h"

namespace llmc::emit {

DimNames::DimNames(std::span<const plan::OpenDimPtr> dims) {
  for (const plan::OpenDimPtr& dim : dims) {
    std::string stem = resembling_identifier(dim->name);
    if (stem.empty()) stem = "size";
    std::string unique = stem;
    for (int i = 2; std::ranges::find(identifiers_, unique) != identifiers_.end(); ++i)
      unique = fmt::format("{}_{}", stem, i);
    identifiers_.push_back(unique);
    by_dim_.emplace(dim.get(), unique);
  }
}

std::string DimNames::plain_text(const plan::Size& size) const {
  return size.text([&](const plan::OpenDim& dim) { return by_dim_.at(&dim); });
}

std::string DimNames::text(const plan::Size& size) const {
  return size.text([&](const plan::OpenDim& dim) { return variable(by_dim_.at(&dim)); });
}

std::string DimNames::factor(const plan::Size& size) const {
  return size.term_count() > 1 ? "(" + text(size) + ")" : text(size);
}

}  // namespace llmc::emit
