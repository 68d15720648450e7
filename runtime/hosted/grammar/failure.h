#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/hosted/outcome.h"

/// Creates the failures of grammars. Functions in this folder throw Failure, because nearly every
/// step of a parser may fail; parse_gbnf(), parse_json_schema() and build_tables() return it.
namespace llmc::hosted::grammar {

/// Concatenates strings, characters and decimal integers.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  const auto append = [&](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (std::integral<Part> && !std::same_as<Part, char>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (append(parts), ...);
  return text;
}

/// Returns text of a grammar in a form that is safe for a message: control characters and invalid
/// UTF-8 become \xNN, and an ellipsis replaces the text after `max_bytes` bytes.
std::string printable(std::string_view text, std::size_t max_bytes = 200);

/// Returns the failure of an invalid grammar.
inline Failure malformed(std::string message, std::string hint = {}) {
  return {LLMC_ERROR_FORMAT, std::move(message), false, std::move(hint)};
}
/// Returns the failure of a grammar that needs an unsupported feature or exceeds a limit.
inline Failure unsupported(std::string message, std::string hint = {}) {
  return {LLMC_ERROR_FORMAT, std::move(message), true, std::move(hint)};
}

/// Calls `body` and returns its result, or the Failure that it throws.
template <class Body>
auto catch_failure(Body&& body) -> Outcome<decltype(body())> {
  try {
    return body();
  } catch (Failure& failure) {
    return std::move(failure);
  }
}

}  // namespace llmc::hosted::grammar
