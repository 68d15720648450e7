#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace llmc {

/// Returns a number of things in words: "1 token", "2 tokens".
std::string counted(std::integral auto count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace llmc
