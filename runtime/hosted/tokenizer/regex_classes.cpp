#include "runtime/hosted/tokenizer/regex_classes.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

constexpr int kMaxClassNesting = 20;
constexpr CategorySet kAssigned = ~set_of(Category::kCn);

struct PropertyName {
  std::string_view name;  // the result of normalized_name()
  CategorySet categories;
};
// clang-format off
constexpr PropertyName kProperties[] = {
    {"any", ~CategorySet{0}}, {"assigned", kAssigned},
    {"l", kLetters}, {"letter", kLetters},
    {"lc", set_of(Category::kLu, Category::kLt)}, {"casedletter", set_of(Category::kLu, Category::kLt)},
    {"lu", set_of(Category::kLu)}, {"uppercaseletter", set_of(Category::kLu)},
    {"ll", set_of(Category::kLl)}, {"lowercaseletter", set_of(Category::kLl)},
    {"lt", set_of(Category::kLt)}, {"titlecaseletter", set_of(Category::kLt)},
    {"lm", set_of(Category::kLm)}, {"modifierletter", set_of(Category::kLm)},
    {"lo", set_of(Category::kLo)}, {"otherletter", set_of(Category::kLo)},
    {"m", kMarks}, {"mark", kMarks}, {"combiningmark", kMarks},
    {"mn", set_of(Category::kMn)}, {"nonspacingmark", set_of(Category::kMn)},
    {"mc", set_of(Category::kMc)}, {"spacingmark", set_of(Category::kMc)},
    {"me", set_of(Category::kMe)}, {"enclosingmark", set_of(Category::kMe)},
    {"n", kNumbers}, {"number", kNumbers},
    {"nd", set_of(Category::kNd)}, {"decimalnumber", set_of(Category::kNd)},
    {"digit", set_of(Category::kNd)},
    {"nl", set_of(Category::kNl)}, {"letternumber", set_of(Category::kNl)},
    {"no", set_of(Category::kNo)}, {"othernumber", set_of(Category::kNo)},
    {"p", kPunctuation}, {"punctuation", kPunctuation},
    {"pc", set_of(Category::kPc)}, {"connectorpunctuation", set_of(Category::kPc)},
    {"pd", set_of(Category::kPd)}, {"dashpunctuation", set_of(Category::kPd)},
    {"ps", set_of(Category::kPs)}, {"openpunctuation", set_of(Category::kPs)},
    {"pe", set_of(Category::kPe)}, {"closepunctuation", set_of(Category::kPe)},
    {"pi", set_of(Category::kPi)}, {"initialpunctuation", set_of(Category::kPi)},
    {"pf", set_of(Category::kPf)}, {"finalpunctuation", set_of(Category::kPf)},
    {"po", set_of(Category::kPo)}, {"otherpunctuation", set_of(Category::kPo)},
    {"s", kSymbols}, {"symbol", kSymbols},
    {"sm", set_of(Category::kSm)}, {"mathsymbol", set_of(Category::kSm)},
    {"sc", set_of(Category::kSc)}, {"currencysymbol", set_of(Category::kSc)},
    {"sk", set_of(Category::kSk)}, {"modifiersymbol", set_of(Category::kSk)},
    {"so", set_of(Category::kSo)}, {"othersymbol", set_of(Category::kSo)},
    {"z", kSeparators}, {"separator", kSeparators},
    {"zs", set_of(Category::kZs)}, {"spaceseparator", set_of(Category::kZs)},
    {"zl", set_of(Category::kZl)}, {"lineseparator", set_of(Category::kZl)},
    {"zp", set_of(Category::kZp)}, {"paragraphseparator", set_of(Category::kZp)},
    {"c", kOthers}, {"other", kOthers},
    {"cc", set_of(Category::kCc)}, {"control", set_of(Category::kCc)},
    {"cf", set_of(Category::kCf)}, {"format", set_of(Category::kCf)},
    {"cs", set_of(Category::kCs)}, {"surrogate", set_of(Category::kCs)},
    {"co", set_of(Category::kCo)}, {"privateuse", set_of(Category::kCo)},
    {"cn", set_of(Category::kCn)}, {"unassigned", set_of(Category::kCn)},
};
// clang-format on

/// Returns a name in the form in which names are compared: without case, blanks, '-' and '_'.
std::string normalized_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return out;
}

bool is_ascii_letter(std::uint32_t c) {
  return c < 128 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

}  // namespace

void RegexReader::fail(const std::string& what) {
  if (problem_.empty()) problem_ = Problem(what);
  rest_ = {};
}
void RegexReader::refuse(const std::string& what) {
  if (problem_.empty()) problem_ = not_supported(what);
  rest_ = {};
}

bool RegexReader::take(std::string_view text) {
  if (!starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

bool RegexReader::interval(std::uint32_t& min_count, std::uint32_t& max_count) {
  if (!starts_with("{")) return false;
  const char* at = rest_.data() + 1;
  const char* const end = rest_.data() + rest_.size();
  const auto number = [&](std::uint32_t& value) {
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return false;
    at = after;
    return true;
  };
  const bool has_minimum = number(min_count);
  if (!has_minimum) min_count = 0;
  if (at != end && *at == ',') {
    ++at;
    if (!number(max_count)) {
      if (!has_minimum) return false;
      max_count = 0xFFFFFFFF;
    }
  } else {
    if (!has_minimum) return false;
    max_count = min_count;
  }
  if (at == end || *at != '}') return false;
  rest_.remove_prefix(static_cast<std::size_t>(at + 1 - rest_.data()));
  return true;
}

std::uint32_t RegexReader::hexadecimal(std::size_t digits) {
  std::uint32_t value = 0;
  const std::size_t length = std::min(digits, rest_.size());
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + length, value, 16);
  if (error != std::errc() || value > kLastCodePoint) {
    fail("an escape without its code point");
    return 0;
  }
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return value;
}

std::uint32_t RegexReader::escaped_code_point() {
  const char c = rest_.empty() ? '\0' : rest_[0];
  constexpr std::string_view kNames = "tnrfvae", kMeaning = "\t\n\r\f\v\a\x1B";
  if (const auto at = kNames.find(c); c != '\0' && at != kNames.npos) {
    rest_.remove_prefix(1);
    return static_cast<unsigned char>(kMeaning[at]);
  }
  if (take("x{")) {
    const std::uint32_t value = hexadecimal(8);
    if (!take("}")) fail("'\\x{' without '}'");
    return value;
  }
  if (take("x")) return hexadecimal(2);
  if (take("u")) return hexadecimal(4);
  if (c == '\0' || is_ascii_letter(static_cast<unsigned char>(c)) || (c >= '0' && c <= '9')) {
    refuse("'\\" + std::string(rest_.substr(0, 1)) + "'");
    return 0;
  }
  return code_point();
}

std::uint32_t RegexReader::code_point() {
  const Utf8Char c = decode_utf8(rest_);
  if (c.bytes == 0) {
    fail("the pattern is not UTF-8, or ends too early");
    return 0;
  }
  rest_.remove_prefix(c.bytes);
  return c.code_point;
}

bool RegexReader::escaped_set(bool in_brackets, CharacterSet& out) {
  for (const char name : {'s', 'd', 'w'}) {
    for (const bool negated : {false, true}) {
      const char spelling[] = {'\\', negated ? static_cast<char>(name - 32) : name};
      if (!take(std::string_view(spelling, 2))) continue;
      out = name == 's'   ? CharacterSet::white_space()
            : name == 'd' ? CharacterSet::of_categories(set_of(Category::kNd))
            : in_brackets ? CharacterSet::word()
                          : CharacterSet::bare_word();
      if (negated) out = out.complement();
      return true;
    }
  }
  if (!starts_with("\\p{") && !starts_with("\\P{")) return false;
  out = property();
  return true;
}

CharacterSet RegexReader::property() {
  const bool opposite = rest_[1] == 'P';
  rest_.remove_prefix(3);
  const bool negated = take("^") != opposite;
  const auto end = rest_.find('}');
  const std::string_view name = rest_.substr(0, end);
  const auto known =
      std::find_if(std::begin(kProperties), std::end(kProperties),
                   [&](const PropertyName& p) { return p.name == normalized_name(name); });
  if (end == rest_.npos || known == std::end(kProperties)) {
    refuse("'\\p{" + std::string(name) + "}'");
    return {};
  }
  rest_.remove_prefix(end + 1);
  const CharacterSet set = folded(CharacterSet::of_categories(known->categories));
  return negated ? set.complement() : set;
}

CharacterSet RegexReader::bracketed(int depth) {
  if (depth > kMaxClassNesting) {
    refuse("classes nested more than " + std::to_string(kMaxClassNesting) + " deep");
    return {};
  }
  const bool negated = take("^");
  std::optional<CharacterSet> common;  // intersection of the parts before '&&'
  CharacterSet set;
  for (bool first = true; problem_.empty() && (first || !starts_with("]")); first = false) {
    if (at_end()) {
      fail("'[' without ']'");
    } else if (starts_with("[:")) {
      refuse("'[:' in a class");
    } else if (take("[")) {
      set.add(bracketed(depth + 1));
    } else if (take("&&")) {
      common = common ? common->intersection(set) : set;
      set = {};
    } else if (CharacterSet escaped; escaped_set(true, escaped)) {
      if (starts_with("-") && !starts_with("-]")) refuse("a range that starts with a set");
      set.add(escaped);
    } else {
      const std::uint32_t from = take("\\") ? escaped_code_point() : code_point();
      std::uint32_t to = from;
      if (starts_with("-") && !starts_with("-]")) {
        take("-");
        if (starts_with("[") || starts_with("&&") || escaped_set(true, escaped)) {
          refuse("a range that ends with a set");
          break;
        }
        to = take("\\") ? escaped_code_point() : code_point();
        if (from > to) fail("a range whose first character is the larger one");
      }
      if (problem_.empty()) set.add(folded({from, to}));
    }
  }
  take("]");
  if (common) set = common->intersection(set);
  return negated ? set.complement() : set;
}

CharacterSet RegexReader::folded(CharacterSet set) {
  if (!ignores_case_ || !problem_.empty()) return set;
  // The long s and the Kelvin sign differ from ASCII letters only in case. For all other letters
  // with case, a set must contain all or none of them, because the tables lack their case mappings.
  static const CharacterSet kCased = [] {
    CharacterSet cased = CharacterSet::of_categories(set_of(Category::kLu, Category::kLt));
    cased.add({0x345, 0x345});    // combining iota subscript
    cased.add({0x2160, 0x2188});  // roman numerals
    cased.add({0x24B6, 0x24E9});  // circled letters
    CharacterSet simple(0, 0x7F);
    simple.add({0x17F, 0x17F});
    simple.add({0x212A, 0x212A});
    return cased.intersection(simple.complement());
  }();
  const CharacterSet cased = set.intersection(kCased);
  const CharacterSet letters = CharacterSet::of_categories(set_of(Category::kLu, Category::kLt));
  if (!cased.empty() && letters.intersection(set.complement()) != CharacterSet()) {
    refuse("some letters that are not ASCII in either case");
    return set;
  }
  CharacterSet both = set;
  for (std::uint32_t c = 'a'; c <= 'z'; ++c) {
    CharacterSet forms(c, c);
    forms.add({c - 32, c - 32});
    if (c == 's') forms.add({0x17F, 0x17F});
    if (c == 'k') forms.add({0x212A, 0x212A});
    if (!forms.intersection(set).empty()) both.add(forms);
  }
  return both;
}

CharacterSet RegexReader::character(std::uint32_t& literal) {
  literal = 0;
  CharacterSet set;
  if (take(".")) return CharacterSet('\n', '\n').complement();
  if (take("[")) return bracketed(0);
  if (escaped_set(false, set)) return set;
  literal = take("\\") ? escaped_code_point() : code_point();
  return problem_.empty() ? folded({literal, literal}) : set;
}

}  // namespace llmc::hosted
