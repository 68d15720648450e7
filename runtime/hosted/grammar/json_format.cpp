#include "runtime/hosted/grammar/json_format.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "runtime/hosted/grammar/json_number_range.h"

namespace llmc::hosted::grammar {
namespace {

template <class... Parts>
Expr in_sequence(Parts... parts) {
  std::vector<Expr> list;
  (list.push_back(std::move(parts)), ...);
  return sequence(std::move(list));
}
template <class... Parts>
Expr any_of(Parts... parts) {
  std::vector<Expr> list;
  (list.push_back(std::move(parts)), ...);
  return choice(std::move(list));
}

Expr two_digits(std::uint64_t first, std::uint64_t last) {
  return fixed_width_between(first, last, 2);
}
Expr two_digits_of(std::initializer_list<std::uint64_t> values) {
  std::vector<Expr> parts;
  for (const std::uint64_t value : values) parts.push_back(two_digits(value, value));
  return choice(std::move(parts));
}
/// first, first + 4, … up to 96.
Expr multiples_of_four(std::uint64_t first) {
  std::vector<Expr> parts;
  for (std::uint64_t value = first; value < 100; value += 4)
    parts.push_back(two_digits(value, value));
  return choice(std::move(parts));
}

Expr full_date() {
  Expr year = fixed_width_between(1, 9999, 4);
  // Centuries are leap years where they divide by 400; there is no year 0000.
  Expr leap_year = any_of(in_sequence(two_digits(0, 99), multiples_of_four(4)),
                          in_sequence(multiples_of_four(4), text("00")));
  Expr days =
      any_of(in_sequence(two_digits_of({1, 3, 5, 7, 8, 10, 12}), text("-"), two_digits(1, 31)),
             in_sequence(two_digits_of({4, 6, 9, 11}), text("-"), two_digits(1, 30)),
             in_sequence(text("02-"), two_digits(1, 28)));
  return any_of(in_sequence(std::move(year), text("-"), std::move(days)),
                in_sequence(std::move(leap_year), text("-02-29")));
}

Expr full_time() {
  Expr fraction = in_sequence(text("."), repeat(set({{'0', '9'}}), 1, 9));
  Expr offset =
      in_sequence(set({{'+', '+'}, {'-', '-'}}), two_digits(0, 23), text(":"), two_digits(0, 59));
  return in_sequence(two_digits(0, 23), text(":"), two_digits(0, 59), text(":"), two_digits(0, 59),
                     optional(std::move(fraction)), any_of(text("Z"), std::move(offset)));
}

}  // namespace

std::optional<Expr> json_format(std::string_view name) {
  if (name == "date") return in_sequence(text("\""), full_date(), text("\""));
  if (name == "time") return in_sequence(text("\""), full_time(), text("\""));
  if (name == "date-time")
    return in_sequence(text("\""), full_date(), text("T"), full_time(), text("\""));
  return std::nullopt;
}

}  // namespace llmc::hosted::grammar
