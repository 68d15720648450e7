#pragma once

#include <optional>
#include <string_view>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// A string of JSON schema's `format` "date", "time" or "date-time" (RFC 3339), with its quotes and
/// without escapes; nullopt for other formats. Dates exist in the Gregorian calendar, years 0001 to
/// 9999. Seconds are 00 to 59 with up to 9 digits of a fraction, letters are capitals.
std::optional<Expr> json_format(std::string_view name);

}  // namespace llmc::hosted::grammar
