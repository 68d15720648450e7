#include "runtime/hosted/tokenizer/split_patterns.h"

#include <array>
#include <initializer_list>
#include <span>

#include "runtime/hosted/tokenizer/unicode.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// What a character is, a bit each: its general category, and the bits below.
using Bits = std::uint64_t;
constexpr Bits kLineEnd = Bits{1} << 32;  // \r \n
constexpr Bits kWhite = Bits{1} << 33;    // \s
constexpr Bits kBlank = Bits{1} << 34;    // U+0020
constexpr Bits kSlash = Bits{1} << 35;    // /
constexpr Bits kAsciiLetter = Bits{1} << 36;
constexpr Bits kAsciiDigit = Bits{1} << 37;
constexpr Bits kAsciiSign = Bits{1} << 38;        // ASCII's punctuation and symbols
constexpr Bits kKanaOrIdeograph = Bits{1} << 39;  // [一-龥぀-ゟ゠-ヿ]
constexpr Bits kBloomStop = Bits{1} << 40;        // (|.,!?…。，、।۔،)
constexpr Bits kWord = Bits{1} << 41;             // \w
constexpr Bits kAny = Bits{1} << 42;

/// The characters that have one of the bits, or none of them.
struct Set {
  Bits bits = 0;
  bool none_of = false;
  constexpr bool has(Bits character) const {
    return character != 0 && ((character & bits) != 0) != none_of;
  }
};
constexpr Set in(Bits bits) {
  return {bits, false};
}
constexpr Set not_in(Bits bits) {
  return {bits, true};
}

Bits bits_of(std::uint32_t c) {
  Bits bits = Bits{set_of(category_of(c))} | kAny;
  if (c < 0x80) {
    if (c == '\r' || c == '\n') bits |= kLineEnd;
    if (c == ' ') bits |= kBlank;
    if (c == '/') bits |= kSlash;
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') bits |= kAsciiLetter;
    if (c >= '0' && c <= '9') bits |= kAsciiDigit;
    if (c > ' ' && c < 0x7F && (bits & (kAsciiLetter | kAsciiDigit)) == 0) bits |= kAsciiSign;
  }
  if (is_space(c)) bits |= kWhite;
  if (is_word(c)) bits |= kWord;
  if ((c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF)) bits |= kKanaOrIdeograph;
  for (const std::uint32_t stop : {0x28u, 0x29u, 0x7Cu, 0x2Eu, 0x2Cu, 0x21u, 0x3Fu, 0x2026u,
                                   0x3002u, 0xFF0Cu, 0x3001u, 0x964u, 0x6D4u, 0x60Cu})
    if (c == stop) bits |= kBloomStop;
  return bits;
}

struct ClassedCharacter {
  Bits bits;  // 0: the end
  std::size_t bytes;
};

/// Reads characters of a text, of either form.
class Reader {
 public:
  Reader(std::string_view text, bool byte_level) : text_(text), byte_level_(byte_level) {}

  ClassedCharacter at(std::size_t place) const {
    if (place >= text_.size()) return {0, 0};
    const auto byte = static_cast<unsigned char>(text_[place]);
    if (byte_level_) return {byte_bits()[byte], 1};
    if (byte < 0x80) return {ascii_bits()[byte], 1};
    const Utf8Char c = decode_utf8(text_.substr(place));
    if (c.bytes == 0) return {kAny, 1};
    return {bits_of(c.code_point), c.bytes};
  }
  /// End of the run that starts at `place`, of at most `most` characters.
  std::size_t run(std::size_t place, Set set, int most = -1) const {
    for (; most != 0; --most) {
      const ClassedCharacter c = at(place);
      if (!set.has(c.bits)) break;
      place += c.bytes;
    }
    return place;
  }
  std::string_view text() const { return text_; }

 private:
  static const std::array<Bits, 128>& ascii_bits() {
    static const std::array<Bits, 128> kTable = [] {
      std::array<Bits, 128> table{};
      for (std::uint32_t c = 0; c < 128; ++c) table[c] = bits_of(c);
      return table;
    }();
    return kTable;
  }
  static const std::array<Bits, 256>& byte_bits() {
    static const std::array<Bits, 256> kTable = [] {
      std::array<Bits, 256> table{};
      for (unsigned byte = 0; byte < 256; ++byte)
        table[byte] = bits_of(spelling_of(static_cast<unsigned char>(byte)));
      return table;
    }();
    return kTable;
  }

  std::string_view text_;
  bool byte_level_;
};

/// Bytes of 's, 't, 're, 've, 'm, 'll, 'd at `place`; 0: none.
std::size_t contraction(std::string_view text, std::size_t place, bool either_case) {
  text.remove_prefix(place);
  if (text.empty() || text[0] != '\'') return 0;
  text.remove_prefix(1);
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    std::size_t i = 0;
    while (i < ending.size() && i < text.size() &&
           (either_case && (text[i] | 0x20) >= 'a' ? static_cast<char>(text[i] | 0x20) : text[i]) ==
               ending[i])
      ++i;
    if (i == ending.size()) return 1 + i;
  }
  // The long s is an s but for case.
  return either_case && text.starts_with("\xC5\xBF") ? 3 : 0;
}

enum class Rule : std::uint8_t {
  kRun,             // BEFORE? BODY{least,most} TAIL*
  kAfter,           // BEFORE BODY+
  kCased,           // BEFORE? BODY* TAIL+, and a contraction if `contractions`
  kContraction,     // one of them, of small letters
  kAnyContraction,  // of either case
  kLineEnds,        // \s*[\r\n]+
  kSpacesAtEnd,     // \s+$
  kSpacesBefore,    // \s+(?!\S)
};

/// One alternative of a pattern.
struct Alternative {
  Rule rule = Rule::kRun;
  Set before, body, tail;
  int least = 1, most = -1;
  bool contractions = false;
};

/// \s+(?!\S): the last character before a word is left to stand alone.
std::size_t spaces_before(const Reader& reader) {
  std::size_t end = 0, last = 0;
  for (ClassedCharacter c = reader.at(0); in(kWhite).has(c.bits); c = reader.at(end)) {
    last = end;
    end += c.bytes;
  }
  return end == reader.text().size() ? end : last;
}

/// The end of the last line end in the white space at the start.
std::size_t line_ends(const Reader& reader) {
  std::size_t end = 0, after = 0;
  for (ClassedCharacter c = reader.at(0); in(kWhite).has(c.bits); c = reader.at(end)) {
    end += c.bytes;
    if (in(kLineEnd).has(c.bits)) after = end;
  }
  return after;
}

/// End of BODY* TAIL+ from `place`, or 0. The run of BODY gives back as little as it must.
std::size_t body_then_tail(const Reader& reader, std::size_t place, const Alternative& a) {
  std::size_t end = place, in_both = 0;
  for (ClassedCharacter c = reader.at(end); a.body.has(c.bits); c = reader.at(end)) {
    end += c.bytes;
    if (a.tail.has(c.bits)) in_both = end;  // TAIL could begin with it
  }
  const std::size_t whole = reader.run(end, a.tail);
  return whole > end ? whole : in_both;
}

std::size_t match(const Reader& reader, const Alternative& a) {
  const ClassedCharacter first = reader.at(0);
  switch (a.rule) {
    case Rule::kContraction:
      return contraction(reader.text(), 0, false);
    case Rule::kAnyContraction:
      return contraction(reader.text(), 0, true);
    case Rule::kLineEnds:
      return line_ends(reader);
    case Rule::kSpacesBefore:
      return spaces_before(reader);
    case Rule::kSpacesAtEnd: {
      const std::size_t end = reader.run(0, in(kWhite));
      return end == reader.text().size() ? end : 0;
    }
    case Rule::kAfter: {
      if (!a.before.has(first.bits)) return 0;
      const std::size_t end = reader.run(first.bytes, a.body);
      return end > first.bytes ? end : 0;
    }
    case Rule::kCased: {
      std::size_t end = a.before.has(first.bits) ? body_then_tail(reader, first.bytes, a) : 0;
      if (end == 0) end = body_then_tail(reader, 0, a);
      if (end > 0 && a.contractions) end += contraction(reader.text(), end, true);
      return end;
    }
    case Rule::kRun:
      break;
  }
  const auto from = [&](std::size_t place) -> std::size_t {
    std::size_t end = place;
    int found = 0;
    for (; found != a.most; ++found) {
      const ClassedCharacter c = reader.at(end);
      if (!a.body.has(c.bits)) break;
      end += c.bytes;
    }
    return found < a.least ? 0 : reader.run(end, a.tail);
  };
  std::size_t end = a.before.has(first.bits) ? from(first.bytes) : 0;
  if (end == 0) end = from(0);
  if (end > 0 && a.contractions) end += contraction(reader.text(), end, true);
  return end;
}

constexpr Bits kL = kLetters, kN = kNumbers, kM = kMarks, kP = kPunctuation, kS = kSymbols;
constexpr Bits kUpper =
    set_of(Category::kLu) | set_of(Category::kLt) | set_of(Category::kLm, Category::kLo) | kMarks;
constexpr Bits kSmall = set_of(Category::kLl) | set_of(Category::kLm, Category::kLo) | kMarks;
constexpr Set kNothing{};

constexpr Alternative run_of(Set before, Set body, Set tail = kNothing) {
  return {Rule::kRun, before, body, tail};
}
constexpr Alternative count_of(Set body, int least, int most) {
  return {Rule::kRun, kNothing, body, kNothing, least, most};
}
constexpr Alternative rule(Rule which) {
  return {which, {}, {}, {}};
}

constexpr Alternative kSomeSpaces = run_of(kNothing, in(kWhite));
constexpr Alternative kLettersAfterSign = run_of(not_in(kLineEnd | kL | kN), in(kL));
constexpr Alternative kSignsThenLines = run_of(in(kBlank), not_in(kWhite | kL | kN), in(kLineEnd));
constexpr Alternative kSignsThenSlashes =
    run_of(in(kBlank), not_in(kWhite | kL | kN), in(kLineEnd | kSlash));
constexpr Alternative cased(bool small_needed, bool contractions) {
  // [^\r\n\p{L}\p{N}]?UPPER*SMALL+ and [^\r\n\p{L}\p{N}]?UPPER+SMALL*
  return small_needed
             ? Alternative{Rule::kCased, not_in(kLineEnd | kL | kN), in(kUpper), in(kSmall), 1, -1,
                           contractions}
             : Alternative{Rule::kRun,  not_in(kLineEnd | kL | kN), in(kUpper), in(kSmall), 1, -1,
                           contractions};
}

constexpr Alternative kGpt2Rules[] = {
    rule(Rule::kContraction),   run_of(in(kBlank), in(kL)),
    run_of(in(kBlank), in(kN)), run_of(in(kBlank), not_in(kWhite | kL | kN)),
    rule(Rule::kSpacesBefore),  kSomeSpaces};
constexpr Alternative kGpt2NewerRules[] = {
    rule(Rule::kContraction),   run_of(in(kBlank), in(kL)),
    run_of(in(kBlank), in(kN)), run_of(in(kBlank), not_in(kWhite | kL | kN)),
    rule(Rule::kSpacesAtEnd),   rule(Rule::kSpacesBefore),
    count_of(in(kWhite), 1, 1)};
constexpr Alternative kLlama3Rules[] = {rule(Rule::kAnyContraction),
                                        kLettersAfterSign,
                                        count_of(in(kN), 1, 3),
                                        kSignsThenLines,
                                        rule(Rule::kLineEnds),
                                        rule(Rule::kSpacesBefore),
                                        kSomeSpaces};
constexpr Alternative kCl100kRules[] = {rule(Rule::kAnyContraction), kLettersAfterSign,
                                        count_of(in(kN), 1, 3),      kSignsThenLines,
                                        rule(Rule::kSpacesAtEnd),    rule(Rule::kLineEnds),
                                        rule(Rule::kSpacesBefore),   count_of(in(kWhite), 1, 1)};
constexpr Alternative kQwen2Rules[] = {rule(Rule::kAnyContraction),
                                       kLettersAfterSign,
                                       count_of(in(kN), 1, 1),
                                       kSignsThenLines,
                                       rule(Rule::kLineEnds),
                                       rule(Rule::kSpacesBefore),
                                       kSomeSpaces};
constexpr Alternative kQwen3NextRules[] = {
    rule(Rule::kAnyContraction),
    run_of(not_in(kLineEnd | kL | kN), in(kL | kM)),
    count_of(in(kN), 1, 1),
    run_of(in(kBlank), not_in(kWhite | kL | kM | kN), in(kLineEnd)),
    rule(Rule::kLineEnds),
    rule(Rule::kSpacesBefore),
    kSomeSpaces};
constexpr Alternative kO200kRules[] = {
    cased(true, true), cased(false, true),    count_of(in(kN), 1, 3),
    kSignsThenSlashes, rule(Rule::kLineEnds), rule(Rule::kSpacesBefore),
    kSomeSpaces};
constexpr Alternative kTekkenRules[] = {
    cased(true, false), cased(false, false),   count_of(in(kN), 1, 1),
    kSignsThenSlashes,  rule(Rule::kLineEnds), rule(Rule::kSpacesBefore),
    kSomeSpaces};
constexpr Alternative kDeepSeekRules[] = {
    {Rule::kAfter, in(kAsciiSign), in(kAsciiLetter), kNothing},
    run_of(not_in(kLineEnd | kL | kP | kS), in(kL | kM)),
    run_of(in(kBlank), in(kP | kS), in(kLineEnd)),
    rule(Rule::kLineEnds),
    rule(Rule::kSpacesBefore),
    kSomeSpaces};
constexpr Alternative kDeepSeekCjkRules[] = {run_of(kNothing, in(kKanaOrIdeograph))};
constexpr Alternative kUpTo3Rules[] = {count_of(in(kN), 1, 3)};
constexpr Alternative kThreeDigitsRules[] = {count_of(in(kAsciiDigit), 3, 3)};
constexpr Alternative kBloomRules[] = {run_of(in(kBlank), not_in(kWhite | kBloomStop))};
constexpr Alternative kNumberRules[] = {count_of(in(kN), 1, 1)};
constexpr Alternative kSpaceRules[] = {count_of(in(kWhite), 1, 1)};
constexpr Alternative kPunctuationRules[] = {count_of(in(kP | kAsciiSign), 1, 1)};
constexpr Alternative kLineBreakRules[] = {count_of(in(kLineEnd), 1, 1)};
constexpr Alternative kSpacesRules[] = {kSomeSpaces};
constexpr Alternative kWordsAndSignsRules[] = {run_of(kNothing, in(kWord)),
                                               run_of(kNothing, not_in(kWord | kWhite))};

struct Pattern {
  std::span<const Alternative> alternatives;
  std::string_view name;  // for people; empty: none
};

// In the order of SplitPattern.
constexpr Pattern kPatterns[] = {
    {kGpt2Rules, "gpt2"},        {kGpt2NewerRules, "r50k_base"},
    {kLlama3Rules, "llama3"},    {kCl100kRules, "cl100k_base"},
    {kQwen2Rules, "qwen2"},      {kQwen3NextRules, "qwen3-next"},
    {kO200kRules, "o200k_base"}, {kTekkenRules, "tekken"},
    {kDeepSeekRules, ""},        {kDeepSeekCjkRules, ""},
    {kUpTo3Rules, ""},           {kThreeDigitsRules, ""},
    {kBloomRules, "bloom"},      {kNumberRules, ""},
    {kSpaceRules, ""},           {kPunctuationRules, ""},
    {kLineBreakRules, ""},       {kSpacesRules, ""},
    {kWordsAndSignsRules, ""},
};
static_assert(std::size(kPatterns) == static_cast<std::size_t>(SplitPattern::kCount));

}  // namespace

std::uint32_t spelling_of(unsigned char byte) {
  const auto itself = [](unsigned b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  if (itself(byte)) return byte;
  if (byte <= 32) return 256u + byte;
  if (byte == 173) return 256 + 67;
  return 256u + 33 + (byte - 127u);  // 127 to 160
}

std::optional<SplitPattern> pattern_named(std::string_view name) {
  if (name == "p50k_base") name = "r50k_base";
  for (std::size_t i = 0; i < std::size(kPatterns); ++i)
    if (!name.empty() && kPatterns[i].name == name) return static_cast<SplitPattern>(i);
  return std::nullopt;
}

std::size_t match_pattern(SplitPattern pattern, std::string_view text, bool byte_level) {
  const Reader reader(text, byte_level);
  for (const Alternative& a : kPatterns[static_cast<std::size_t>(pattern)].alternatives)
    if (const std::size_t end = match(reader, a); end > 0) return end;
  return 0;
}

std::size_t first_character(std::string_view text, bool byte_level) {
  return byte_level ? 1 : std::max<std::size_t>(1, decode_utf8(text).bytes);
}

}  // namespace llmc::hosted
