#include "runtime/hosted/grammar/json_format.h"

#include <utility>
#include <vector>

#include "runtime/hosted/grammar/json_number_range.h"

namespace llmc::hosted::grammar {
namespace {

Expr two_digits(std::uint64_t first, std::uint64_t last) {
  return fixed_width_between(first, last, 2);
}
Expr two_digits_of(const std::vector<std::uint64_t>& values) {
  std::vector<Expr> parts;
  for (const std::uint64_t value : values) parts.push_back(two_digits(value, value));
  return choice(std::move(parts));
}
/// Returns the multiples of four that are first, first + 4, … up to 96, with two digits.
Expr multiples_of_four(std::uint64_t first) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t value = first; value < 100; value += 4) values.push_back(value);
  return two_digits_of(values);
}

Expr full_date() {
  Expr year = fixed_width_between(1, 9999, 4);
  // Years that are divisible by 100 are leap years only if they are divisible by 400. There is no
  // year 0000.
  Expr leap_year = choice(sequence(two_digits(0, 99), multiples_of_four(4)),
                          sequence(multiples_of_four(4), text("00")));
  Expr days = choice(sequence(two_digits_of({1, 3, 5, 7, 8, 10, 12}), text("-"), two_digits(1, 31)),
                     sequence(two_digits_of({4, 6, 9, 11}), text("-"), two_digits(1, 30)),
                     sequence(text("02-"), two_digits(1, 28)));
  return choice(sequence(std::move(year), text("-"), std::move(days)),
                sequence(std::move(leap_year), text("-02-29")));
}

Expr full_time() {
  Expr fraction = sequence(text("."), digits(1, 9));
  Expr offset =
      sequence(set({{'+', '+'}, {'-', '-'}}), two_digits(0, 23), text(":"), two_digits(0, 59));
  return sequence(two_digits(0, 23), text(":"), two_digits(0, 59), text(":"), two_digits(0, 59),
                  optional(std::move(fraction)), choice(text("Z"), std::move(offset)));
}

}  // namespace

std::optional<Expr> json_format(std::string_view name) {
  if (name == "date") return sequence(text("\""), full_date(), text("\""));
  if (name == "time") return sequence(text("\""), full_time(), text("\""));
  if (name == "date-time")
    return sequence(text("\""), full_date(), text("T"), full_time(), text("\""));
  return std::nullopt;
}

}  // namespace llmc::hosted::grammar
