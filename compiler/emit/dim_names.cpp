#include "compiler/emit/dim_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc::emit {

DimNames::DimNames(std::span<const plan::OpenDimPtr> dims) {
  for (const plan::OpenDimPtr& dim : dims) {
    std::string stem;
    for (const char c : dim->name.substr(0, 48)) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool digit = c >= '0' && c <= '9';
      if (letter || (digit && !stem.empty())) {
        stem += static_cast<char>(letter ? (c | 0x20) : c);
      } else if (!stem.empty() && stem.back() != '_') {
        stem += '_';
      }
    }
    while (!stem.empty() && stem.back() == '_') stem.pop_back();
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
