#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace llmc {

/// Parses a text that is a number from its first to its last character; nullopt for other text.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && next == end ? std::optional(value) : std::nullopt;
}

}  // namespace llmc
