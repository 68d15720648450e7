#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Implements Python's string operations on UTF-8 characters.
namespace llmc::hosted::jinja {

/// Returns the characters of `text`. Each byte that is not valid UTF-8 is a character.
std::vector<std::string_view> characters(std::string_view text);
bool is_ascii(std::string_view text);

enum class Side { kBoth, kLeft, kRight };
/// Implements str.strip(chars); if `chars` is nullopt, strips Python's whitespace.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side);
/// Returns whether the text is empty or contains only whitespace.
bool is_blank(std::string_view text);

/// Implements str.split(separator, max_splits); if `separator` is nullopt, splits at whitespace.
/// max_splits < 0: no limit.
std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    std::int64_t max_splits, bool from_right);
/// Implements str.splitlines(): splits at every Unicode line end.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);
/// Implements str.replace(from, to, max_count). Returns nullopt if the result exceeds `limit`
/// bytes.
std::optional<std::string> replace(std::string_view text, std::string_view from,
                                   std::string_view to, std::int64_t max_count, std::size_t limit);

/// Returns int(text, base) or, if that is not possible, int(float(text)); nullopt if the text is
/// not a finite number. Throws TemplateError if the number is too large, and for digits outside
/// ASCII.
std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t base);

/// Implement Python's methods for ASCII text. The caller must check that the text is ASCII.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);  // also makes letters after letters lower case
/// Implements Jinja's filter `title` for ASCII text: words begin after whitespace and after
/// any of `-({[<`.
std::string title_words(std::string_view text);

}  // namespace llmc::hosted::jinja
