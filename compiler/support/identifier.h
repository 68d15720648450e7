#pragma once

#include <string>
#include <string_view>

namespace llmc {

/// Returns a C identifier of the first words of `text`, at most 48 characters. It begins with a
/// letter and consists of lower-case letters, digits and single underscores. It may be a keyword.
/// Empty if there is no letter.
std::string resembling_identifier(std::string_view text);

/// Returns the first of STEM, STEM_2, STEM_3, … for which `is_new` is true.
template <class IsNew>
std::string numbered(const std::string& stem, const IsNew& is_new) {
  std::string name = stem;
  for (int i = 2; !is_new(name); ++i) name = stem + "_" + std::to_string(i);
  return name;
}

}  // namespace llmc
