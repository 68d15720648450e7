#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace llmc::emit {

/// Returns a designated initializer: "{.x = x, .eps = 1e-05f}". `begin` is inserted before the
/// first field. Fields with the value "nullptr" are omitted.
inline std::string fields(std::initializer_list<std::pair<std::string_view, std::string>> values,
                          std::string_view begin = "") {
  std::string text;
  for (const auto& [name, value] : values) {
    if (value == "nullptr") continue;
    text += fmt::format("{}.{} = {}", text.empty() ? begin : ", ", name, value);
  }
  return "{" + text + "}";
}

}  // namespace llmc::emit
