#include "tools/llmc/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "compiler/support/parse_number.h"

namespace llmc::cli {
namespace {

/// Returns the first long name of an option: "--ctx" for "-c,--ctx,--ctx-size".
std::string long_name(const std::string& names) {
  const std::size_t dashes = names.find("--");
  const std::size_t begin = dashes == std::string::npos ? 0 : dashes;
  return names.substr(begin, names.find(',', begin) - begin);
}

/// Parses a number of tokens: "2048", "2k", "32K", "1M" (multiples of 1024).
std::optional<std::int64_t> parse_tokens(std::string_view text) {
  std::int64_t factor = 1;
  if (text.ends_with('k') || text.ends_with('K')) factor = 1024;
  if (text.ends_with('m') || text.ends_with('M')) factor = 1024 * 1024;
  if (factor > 1) text.remove_suffix(1);
  const auto number = parse_number<std::int64_t>(text);
  std::int64_t tokens = 0;
  if (!number || __builtin_mul_overflow(*number, factor, &tokens)) return std::nullopt;
  return tokens;
}

/// Adds an option for a number from `min` to `max`, read by `parse`; `kind` names it in the error.
template <class T, class Number>
CLI::Option* add_ranged(CLI::App& app, const std::string& names, T& value,
                        std::optional<Number> (*parse)(std::string_view), Number min, Number max,
                        const std::string& text, const char* kind, const char* hint = "") {
  const auto take = [=, &value, name = long_name(names)](const CLI::results_t& results) {
    const auto number = parse(last_value(results));
    // This form of the condition rejects NaN.
    if (!number || !(*number >= min && *number <= max)) {
      throw CLI::ValidationError(fmt::format("{} takes a {} from {} to {}{}, not '{}'", name, kind,
                                             min, max, hint, printable(last_value(results))));
    }
    value = static_cast<T>(*number);
    return true;
  };
  return app.add_option(names, take, text);
}

}  // namespace

const std::string& last_value(const CLI::results_t& results) {
  static const std::string nothing;
  return results.empty() ? nothing : results.back();
}

CLI::Option* add_whole_number(CLI::App& app, const std::string& names, std::uint32_t& value,
                              std::uint64_t min, std::uint64_t max, const std::string& text) {
  return add_ranged(app, names, value, parse_number<std::uint64_t>, min, max, text, "whole number")
      ->type_name("N");
}

template <class T>
CLI::Option* add_token_count(CLI::App& app, const std::string& names, T& value, std::int64_t min,
                             std::int64_t max, const std::string& text) {
  return add_ranged(app, names, value, parse_tokens, min, max, text, "whole number",
                    ", also such as 2k or 32K")
      ->type_name(kTokensType);
}
template CLI::Option* add_token_count(CLI::App&, const std::string&, std::uint32_t&, std::int64_t,
                                      std::int64_t, const std::string&);
template CLI::Option* add_token_count(CLI::App&, const std::string&, std::int32_t&, std::int64_t,
                                      std::int64_t, const std::string&);

CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int32_t& value,
                         std::int64_t min, std::int64_t max, const std::string& text) {
  return add_ranged(app, names, value, parse_number<std::int64_t>, min, max, text, "whole number")
      ->type_name("N");
}

template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& value, double min, double max,
                        const std::string& text) {
  return add_ranged(app, names, value, parse_number<double>, min, max, text, "number")
      ->type_name("X");
}
template CLI::Option* add_number(CLI::App&, const std::string&, double&, double, double,
                                 const std::string&);
template CLI::Option* add_number(CLI::App&, const std::string&, float&, double, double,
                                 const std::string&);

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Result<std::vector<std::int32_t>> parse_numbers(const std::string& text, const std::string& what,
                                                std::int64_t limit, std::int64_t min) {
  std::vector<std::int32_t> result;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || number < min || number > limit || (next != end && *next != ','))
      break;
    result.push_back(static_cast<std::int32_t>(number));
    if (next == end) return result;
    at = next + 1;
  }
  if (text.empty()) return usage_error(what + " is empty", "give numbers, such as 1,2,3");
  if (const auto one = parse_number<std::int64_t>(text)) {
    return usage_error(
        fmt::format("{} takes numbers from {} to {}, not {}", what, min, limit, *one),
        "such as 1,2,3 for several");
  }
  const std::string bad(at, std::find(at, end, ','));
  return usage_error(what + (bad.empty() ? ": a number is missing beside a comma"
                                         : fmt::format(": '{}' is not a number from {} to {}",
                                                       printable(bad, 40), min, limit)),
                     "give numbers separated by commas, such as 1,2,3");
}

Result<std::vector<std::uint32_t>> parse_counts(const std::string& text, const std::string& what,
                                                std::int64_t limit, std::int64_t min) {
  LLMC_TRY(const auto parsed, parse_numbers(text, what, limit, min));
  std::vector<std::uint32_t> unique;
  for (const std::int32_t number : parsed) {
    const auto n = static_cast<std::uint32_t>(number);
    if (std::ranges::count(unique, n) == 0) unique.push_back(n);
  }
  return unique;
}

Result<std::vector<std::uint32_t>> parse_token_counts(const std::string& text,
                                                      const std::string& what, std::int64_t limit) {
  // Expand suffixes; keep invalid words for the message.
  std::string plain;
  const char* comma = "";
  for (const std::string& part : split(text)) {
    const bool has_suffix = !part.empty() && !(part.back() >= '0' && part.back() <= '9');
    const auto tokens = has_suffix ? parse_tokens(part) : std::nullopt;
    plain += comma + (tokens ? fmt::to_string(*tokens) : part);
    comma = ",";
  }
  return parse_counts(plain, what, limit);
}

Result<std::uint64_t> parse_bytes(const std::string& text, const std::string& option) {
  if (text.empty()) return std::uint64_t{0};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(next, static_cast<std::size_t>(end - next));
  double factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "KB" || unit == "kB") factor = 1e3;
  if (unit == "MB") factor = 1e6;
  if (unit == "GB") factor = 1e9;
  if (unit == "K" || unit == "KiB" || unit == "k") factor = 1024;
  if (unit == "M" || unit == "MiB") factor = 1024.0 * 1024;
  if (unit == "G" || unit == "GiB") factor = 1024.0 * 1024 * 1024;
  const double bytes = number * factor;
  const bool has_part = factor == 1 && bytes != std::floor(bytes);  // the unit is missing
  if (error != std::errc{} || factor == 0 || !(bytes >= 1) || bytes > 1e18 || has_part) {
    return usage_error(
        fmt::format("{} {} is not a size", option, printable(text)),
        "give bytes, or a number with K, M or G, such as 64M (times 1024) or 64MB (1000)");
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace llmc::cli
