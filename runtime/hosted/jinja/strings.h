#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Python's operations on strings, by characters of UTF-8.
namespace llmc::hosted::jinja {

/// The characters of `text`; bytes that are no UTF-8 are one each.
std::vector<std::string_view> characters(std::string_view text);
bool is_ascii(std::string_view text);

enum class Side { kBoth, kLeft, kRight };
/// strip(chars); nullopt strips what Python calls whitespace.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side);
/// Whether it has whitespace alone; true for nothing.
bool is_blank(std::string_view text);

/// split(separator, most); nullopt splits at whitespace. most < 0: everywhere.
std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t most,
                                    bool from_right);
/// str.splitlines(): at every kind of line end that Unicode has.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);
/// replace(from, to, most). The result may be long: `limit` is the most bytes, nullopt beyond it.
std::optional<std::string> replace(std::string_view text, std::string_view from,
                                   std::string_view to, std::int64_t most, std::size_t limit);

/// int(text, base), and int(float(text)) where that fails; nullopt for what is neither.
/// TemplateError for a number that is too large here, and for digits outside ASCII.
std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t base);

/// ASCII only: what else there is has to be checked before.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);        // str.title(): letters behind others are small
std::string title_words(std::string_view text);  // the filter: words are parted by blanks and -({[<

}  // namespace llmc::hosted::jinja
