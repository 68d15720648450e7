#include "runtime/hosted/tokenizer/regex_syntax.h"

#include <algorithm>
#include <string>

#include "runtime/hosted/tokenizer/regex_classes.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

constexpr std::size_t kMaxRegexBytes = 8192;
constexpr int kMaxRegexNesting = 50;
constexpr std::uint32_t kMaxRegexCount = 1000;

RegexNode node_of(RegexKind kind, std::vector<RegexNode> parts = {}) {
  if ((kind == RegexKind::kSequence || kind == RegexKind::kChoice) && parts.size() == 1)
    return std::move(parts.front());
  RegexNode node;
  node.kind = kind;
  node.parts = std::move(parts);
  return node;
}

struct EscapedAnchor {
  std::string_view spelling;
  Anchor anchor;
};
constexpr EscapedAnchor kEscapedAnchors[] = {{"\\A", Anchor::kTextBegin},
                                             {"\\z", Anchor::kTextEnd},
                                             {"\\Z", Anchor::kTextOrLastLineEnd},
                                             {"\\b", Anchor::kWordBoundary},
                                             {"\\B", Anchor::kNoWordBoundary}};

class RegexParser {
 public:
  RegexParser(std::string_view text, Regex& out) : reader_(text), out_(out) {}

  Problem parse() {
    set_of_node(CharacterSet::bare_word());
    out_.root = alternatives(0);
    if (problem().empty() && !reader_.at_end()) fail("')' without '('");
    return problem();
  }

 private:
  const Problem& problem() const { return reader_.problem(); }
  void fail(const std::string& what) { reader_.fail(what); }
  void refuse(const std::string& what) { reader_.refuse(what); }

  RegexNode set_of_node(const CharacterSet& set) {
    const auto known = std::find(out_.sets.begin(), out_.sets.end(), set);
    RegexNode node = node_of(RegexKind::kSet);
    node.set = static_cast<std::uint32_t>(known - out_.sets.begin());
    if (known == out_.sets.end()) out_.sets.push_back(set);
    return node;
  }
  static RegexNode anchor(Anchor which) {
    RegexNode node = node_of(RegexKind::kAnchor);
    node.anchor = which;
    return node;
  }

  /// Parses alternatives up to ')' or the end.
  RegexNode alternatives(int depth) {
    if (depth > kMaxRegexNesting) {
      refuse("groups nested more than " + std::to_string(kMaxRegexNesting) + " deep");
      return {};
    }
    std::vector<RegexNode> choices;
    do {
      choices.push_back(sequence(depth));
    } while (reader_.take("|"));
    return node_of(RegexKind::kChoice, std::move(choices));
  }

  RegexNode sequence(int depth) {
    std::vector<RegexNode> parts;
    last_letter_ = 0;
    while (problem().empty() && !reader_.at_end() && !reader_.starts_with("|") &&
           !reader_.starts_with(")")) {
      RegexNode part;
      if (reader_.starts_with("(")) {
        last_letter_ = 0;
        part = group(depth);
        last_letter_ = 0;
      } else {
        part = single();
      }
      parts.push_back(quantified(std::move(part)));
    }
    if (parts.empty()) return {};
    return node_of(RegexKind::kSequence, std::move(parts));
  }

  RegexNode group(int depth) {
    reader_.take("(");
    const bool folds = reader_.ignores_case();
    RegexNode node;
    if (!reader_.take("?")) {
      node = alternatives(depth + 1);
    } else if (reader_.take(":")) {
      node = alternatives(depth + 1);
    } else if (reader_.take("=") || reader_.starts_with("!")) {
      node = look(reader_.take("!"), false, depth);
    } else if (reader_.take("<=") || reader_.starts_with("<!")) {
      node = look(reader_.take("<!"), true, depth);
    } else if (reader_.take(">")) {
      node = alternatives(depth + 1);
      if (node.kind == RegexKind::kRepeat && node.parts[0].kind == RegexKind::kSet)
        node.greed = node.greed == Greed::kGreedy ? Greed::kPossessive : node.greed;
      else if (node.kind != RegexKind::kSet)
        refuse("'(?>' around more than one repeated character");
      if (node.greed == Greed::kLazy) refuse("a lazy repetition in '(?>'");
    } else if (options() && reader_.take(")")) {
      // Parse up to the end of the enclosing group, but do not consume its ')'.
      node = alternatives(depth + 1);
      reader_.set_ignores_case(folds);
      return node;
    } else if (problem().empty() && reader_.take(":")) {
      node = alternatives(depth + 1);
    }
    reader_.set_ignores_case(folds);
    if (problem().empty() && !reader_.take(")")) fail("'(' without ')'");
    return node;
  }
  RegexNode look(bool negated, bool lookbehind, int depth) {
    std::vector<RegexNode> part;
    part.push_back(alternatives(depth + 1));
    if (lookbehind && part[0].kind != RegexKind::kSet)
      refuse("lookbehind of more than one character");
    RegexNode node = node_of(RegexKind::kLook, std::move(part));
    node.negated = negated;
    node.lookbehind = lookbehind;
    return node;
  }
  /// Reads the letters of (?i) or (?i:...). Returns false for other letters.
  bool options() {
    for (bool on = true; !reader_.at_end();) {
      if (reader_.starts_with(":") || reader_.starts_with(")")) return true;
      if (reader_.take("-")) {
        on = false;
      } else if (reader_.take("i")) {
        reader_.set_ignores_case(on);
      } else {
        refuse("'(?" + std::string(reader_.rest().substr(0, 1)) + "'");
        return false;
      }
    }
    return true;
  }

  RegexNode single() {
    if (reader_.take("^")) return anchor(Anchor::kLineBegin);
    if (reader_.take("$")) return anchor(Anchor::kLineEnd);
    for (const EscapedAnchor& escaped : kEscapedAnchors)
      if (reader_.take(escaped.spelling)) return anchor(escaped.anchor);
    for (const char* const spelling : {"*", "+", "?"})
      if (reader_.starts_with(spelling)) {
        fail(std::string("nothing to repeat before '") + spelling + "'");
        return {};
      }
    const std::uint32_t before = last_letter_;
    const CharacterSet set = reader_.character(last_letter_);
    if (reader_.ignores_case() && folds_together(before, last_letter_))
      refuse(std::string("'") + static_cast<char>(before | 0x20) +
             static_cast<char>(last_letter_ | 0x20) + "' in either case, also a ligature,");
    return problem().empty() ? set_of_node(set) : RegexNode{};
  }
  /// Returns whether one character equals the two letters if case is ignored: ß, ff, fi, fl, st.
  static bool folds_together(std::uint32_t first, std::uint32_t second) {
    const std::string pair{static_cast<char>(first | 0x20), static_cast<char>(second | 0x20)};
    return first < 128 && second < 128 &&
           (pair == "ss" || pair == "st" || pair == "ff" || pair == "fi" || pair == "fl");
  }

  RegexNode quantified(RegexNode part) {
    while (problem().empty()) {
      std::uint32_t min_count = 0, max_count = kNoLimit;
      bool interval = false;
      if (reader_.take("+")) {
        min_count = 1;
      } else if (reader_.take("?")) {
        max_count = 1;
      } else if (!reader_.take("*")) {
        interval = reader_.interval(min_count, max_count);
        if (!interval) return part;
        if (max_count != kNoLimit && min_count > max_count) {
          refuse("a count whose first number is larger");
          return part;
        }
      }
      if (std::max(min_count, max_count == kNoLimit ? 0 : max_count) > kMaxRegexCount) {
        refuse("a count above " + std::to_string(kMaxRegexCount));
        return part;
      }
      last_letter_ = 0;
      if (part.kind == RegexKind::kAnchor || part.kind == RegexKind::kLook) {
        refuse("a repetition of an empty expression");
        return part;
      }
      if (max_count == kNoLimit && is_nullable(part)) {
        refuse("an unbounded repetition of a possibly empty expression");
        return part;
      }
      std::vector<RegexNode> inner;
      inner.push_back(std::move(part));
      part = node_of(RegexKind::kRepeat, std::move(inner));
      part.min_count = min_count;
      part.max_count = max_count;
      // In the syntax of Oniguruma and Ruby, {n}? and {n,m}+ repeat the repetition.
      if ((!interval || min_count != max_count) && reader_.take("?")) {
        part.greed = Greed::kLazy;
      } else if (!interval && reader_.take("+")) {
        part.greed = Greed::kPossessive;
        if (part.parts[0].kind != RegexKind::kSet)
          refuse("a possessive repetition of more than one character");
      }
    }
    return part;
  }

  RegexReader reader_;
  Regex& out_;
  std::uint32_t last_letter_ = 0;  // the literal before the current position; 0: none
};

}  // namespace

bool is_nullable(const RegexNode& node) {
  switch (node.kind) {
    case RegexKind::kSet:
      return false;
    case RegexKind::kSequence:
      return std::all_of(node.parts.begin(), node.parts.end(), is_nullable);
    case RegexKind::kChoice:
      return std::any_of(node.parts.begin(), node.parts.end(), is_nullable);
    case RegexKind::kRepeat:
      return node.min_count == 0 || is_nullable(node.parts[0]);
    case RegexKind::kEmpty:
    case RegexKind::kLook:
    case RegexKind::kAnchor:
      return true;
  }
  return true;
}

Problem parse_regex(std::string_view expression, Regex& out) {
  if (expression.size() > kMaxRegexBytes)
    return not_supported("a pattern of more than " + std::to_string(kMaxRegexBytes) + " bytes");
  return RegexParser(expression, out).parse();
}

}  // namespace llmc::hosted
