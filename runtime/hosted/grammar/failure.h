#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/hosted/outcome.h"

/// How grammars are refused. Inside this folder a Failure is thrown, because nearly every step of a
/// parser may fail; parse_gbnf, parse_json_schema and build_tables return it.
namespace llmc::hosted::grammar {

/// The arguments as one text: strings, characters and integers.
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

/// Quotes a grammar's own text in a message: control characters and invalid UTF-8 as \xNN, cut to
/// `max_bytes` with an ellipsis.
std::string printable(std::string_view text, std::size_t max_bytes = 200);

/// The grammar contradicts itself or is not written correctly.
inline Failure malformed(std::string message, std::string hint = {}) {
  return {LLMC_ERROR_FORMAT, std::move(message), false, std::move(hint)};
}
/// The grammar may be correct, but uses what is not supported or exceeds a limit.
inline Failure unsupported(std::string message, std::string hint = {}) {
  return {LLMC_ERROR_FORMAT, std::move(message), true, std::move(hint)};
}

/// Returns what `body` returns or the Failure that it throws.
template <class Body>
auto catch_failure(Body&& body) -> Outcome<decltype(body())> {
  try {
    return body();
  } catch (Failure& failure) {
    return std::move(failure);
  }
}

}  // namespace llmc::hosted::grammar
