#pragma once

#include <optional>
#include <string_view>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// Returns an expression for the JSON strings of the `format` "date", "time" or "date-time" (RFC
/// 3339), with quotes and without escapes; nullopt for other formats. Dates must be valid in the
/// Gregorian calendar, years 0001 to 9999. Seconds are 00 to 59 with up to 9 fraction digits.
/// Letters are upper case.
std::optional<Expr> json_format(std::string_view name);

}  // namespace llmc::hosted::grammar
