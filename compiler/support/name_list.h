#pragma once

#include <ranges>
#include <string>
#include <string_view>

namespace llmc {

/// Returns the names as a list: "q4, q6 or q8" if `last_separator` is " or ".
std::string name_list(std::ranges::sized_range auto&& names, std::string_view last_separator) {
  std::string text;
  std::size_t left = std::ranges::size(names);
  for (const auto& name : names) {
    --left;
    if (!text.empty()) text += left == 0 ? last_separator : ", ";
    text += name;
  }
  return text;
}

}  // namespace llmc
