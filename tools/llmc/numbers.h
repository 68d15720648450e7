#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/llmc/cli.h"

/// Options that are numbers, and lists of numbers.
namespace llmc::cli {

/// Returns the last value of an option from `results`, the argument of its callback; empty if there
/// is none.
const std::string& last_value(const CLI::results_t& results);

/// Adds an option for a whole number from `min` to `max`; other values are usage errors.
CLI::Option* add_whole_number(CLI::App& app, const std::string& names, std::uint32_t& value,
                              std::uint64_t min, std::uint64_t max, const std::string& text);
/// Like add_whole_number(), for a number of tokens. The suffixes k and K, as in "2k",
/// multiply it by 1024, m and M by 1024 * 1024.
template <class T>
CLI::Option* add_token_count(CLI::App& app, const std::string& names, T& value, std::int64_t min,
                             std::int64_t max, const std::string& text);
/// Type name of these options in help texts.
inline constexpr const char* kTokensType = "TOKENS";
/// Like add_whole_number(), for signed numbers.
CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int32_t& value,
                         std::int64_t min, std::int64_t max, const std::string& text);
/// Adds an option for a number from `min` to `max`. T: double or float.
template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& value, double min, double max,
                        const std::string& text);
/// Returns the parts between commas; one empty part for an empty text.
std::vector<std::string> split(const std::string& text);
/// Parses "1,2,3". Fails with kUsage, with `what` in the message, for other text and for numbers
/// outside [min, limit].
Result<std::vector<std::int32_t>> parse_numbers(const std::string& text, const std::string& what,
                                                std::int64_t limit = INT32_MAX,
                                                std::int64_t min = 0);
/// Parse lists of counts like parse_numbers(), and remove duplicates; token counts may have the
/// suffixes of add_token_count().
Result<std::vector<std::uint32_t>> parse_counts(const std::string& text, const std::string& what,
                                                std::int64_t limit, std::int64_t min = 0);
Result<std::vector<std::uint32_t>> parse_token_counts(const std::string& text,
                                                      const std::string& what, std::int64_t limit);
/// Parses a size in bytes: "65536", "64K", "1.5MiB", "2G" (powers of 1024) or "64KB", "2GB" (powers
/// of 1000). An empty text is 0. Fails with kUsage, with `option` in the message, for other text.
Result<std::uint64_t> parse_bytes(const std::string& text, const std::string& option);

}  // namespace llmc::cli
