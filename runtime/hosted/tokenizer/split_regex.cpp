#include "runtime/hosted/tokenizer/split_regex.h"

#include <algorithm>
#include <string>

// A backtracking matcher for a compiled program. It takes linear time for two reasons. First,
// whether the rest of a program matches depends only on the choice and the position, so each
// combination is tried only once per text. Second, a repeated set consumes as many characters as
// possible, without backtracking, if returning some of them cannot help.
namespace llmc::hosted {

class RegexCompiler {
 public:
  RegexCompiler(const Regex& regex, SplitRegex& out) : regex_(regex), out_(out) {}

  Problem compile() {
    Tail accept;
    accept.entry = add({});
    accept.is_sure = true;
    out_.entry_ = compile(regex_.root, accept).entry;
    if (out_.code_.size() > kMaxInstructions || out_.choices_ > kMaxChoices)
      return not_supported("so large a pattern");
    return {};
  }

 private:
  using Classes = std::bitset<CharacterClasses::kMaxClasses>;
  using Op = SplitRegex::Op;
  static constexpr std::size_t kMaxInstructions = 4096;
  // Maximum number of choices, which is the number of bits stored per byte of a text.
  static constexpr std::uint32_t kMaxChoices = 256;

  /// The part of the program after a node.
  struct Tail {
    std::uint32_t entry = 0;
    Classes first;         // classes with which its match can begin
    bool is_sure = false;  // whether it matches any text
    bool is_open = false;  // whether it may match before any character if a look or an anchor holds
  };

  bool too_large() const { return out_.code_.size() > kMaxInstructions; }
  std::uint32_t add(SplitRegex::Instruction instruction) {
    out_.code_.push_back(instruction);
    return static_cast<std::uint32_t>(out_.code_.size() - 1);
  }

  Classes classes_of(std::uint32_t set) const {
    Classes classes;
    for (std::size_t c = 0; c < classes.size(); ++c)
      classes[c] = out_.classes_.has(set, static_cast<CharacterClasses::Class>(c));
    return classes;
  }

  /// Compiles a node followed by `tail`.
  Tail compile(const RegexNode& node, const Tail& tail) {
    if (too_large()) return tail;
    switch (node.kind) {
      case RegexKind::kEmpty:
        return tail;
      case RegexKind::kSet: {
        Tail out;
        out.entry = add({.op = Op::kSet, .next = tail.entry, .set = node.set});
        out.first = classes_of(node.set);
        return out;
      }
      case RegexKind::kSequence: {
        Tail out = tail;
        for (std::size_t i = node.parts.size(); i-- > 0;) out = compile(node.parts[i], out);
        return out;
      }
      case RegexKind::kChoice: {
        std::vector<Tail> branches;
        for (const RegexNode& part : node.parts) branches.push_back(compile(part, tail));
        return choice(reserve_choice(), branches);
      }
      case RegexKind::kRepeat:
        return repeat(node, tail);
      case RegexKind::kLook: {
        Tail accept;
        accept.entry = add({});
        accept.is_sure = true;
        const RegexNode& part = node.parts[0];
        SplitRegex::Instruction look{.op = Op::kLook,
                                     .negated = node.negated,
                                     .lookbehind = node.lookbehind,
                                     .next = tail.entry,
                                     .set = part.set,
                                     .memo = out_.looks_++};
        if (!node.lookbehind) look.body = compile(part, accept).entry;
        return conditional(add(look), tail);
      }
      case RegexKind::kAnchor:
        return conditional(add({.op = Op::kAnchor, .anchor = node.anchor, .next = tail.entry}),
                           tail);
    }
    return tail;
  }
  static Tail conditional(std::uint32_t entry, const Tail& tail) {
    Tail out;
    out.entry = entry;
    out.first = tail.first;
    out.is_open = tail.is_sure || tail.is_open;
    return out;
  }

  std::uint32_t reserve_choice() { return add({.op = Op::kChoice, .memo = out_.choices_++}); }
  Tail choice(std::uint32_t entry, const std::vector<Tail>& branches) {
    Tail out;
    out.entry = entry;
    SplitRegex::Instruction& instruction = out_.code_[entry];
    instruction.first = static_cast<std::uint32_t>(out_.branches_.size());
    instruction.count = static_cast<std::uint32_t>(branches.size());
    for (const Tail& branch : branches) {
      const bool any = branch.is_sure || branch.is_open;
      out_.branches_.push_back({branch.entry, any ? ~Classes() : branch.first});
      out.first |= branch.first;
      out.is_sure = out.is_sure || branch.is_sure;
      out.is_open = out.is_open || branch.is_open;
    }
    return out;
  }

  Tail repeat(const RegexNode& node, const Tail& tail) {
    const RegexNode& part = node.parts[0];
    Tail out = tail;
    std::uint32_t min_count = node.min_count;
    const bool is_run = part.kind == RegexKind::kSet && takes_all(node, tail);
    if (is_run) {
      // An unbounded run has a minimum of 0 or 1 characters, so that what is known about a run also
      // holds for each run that begins inside it.
      const std::uint32_t at_least =
          node.max_count == kNoLimit ? std::min(min_count, 1u) : min_count;
      out = run(part.set, at_least, node.max_count, tail);
      min_count -= at_least;
    } else if (node.max_count == kNoLimit) {
      const std::uint32_t loop = reserve_choice();
      Tail again;
      again.entry = loop;
      again.first = first_of(part) | tail.first;
      again.is_sure = tail.is_sure;
      again.is_open = tail.is_open;
      const Tail body = compile(part, again);
      out = choice(loop,
                   node.greed == Greed::kLazy ? std::vector{tail, body} : std::vector{body, tail});
    } else {
      for (std::uint32_t i = node.min_count; i < node.max_count && !too_large(); ++i) {
        const std::uint32_t entry = reserve_choice();
        const Tail body = compile(part, out);
        out = choice(
            entry, node.greed == Greed::kLazy ? std::vector{tail, body} : std::vector{body, tail});
      }
    }
    for (; min_count > 0 && !too_large(); --min_count) out = compile(part, out);
    return out;
  }
  /// Returns whether a repeated set never has to return characters, because the rest cannot begin
  /// with characters of the set, or matches any text.
  bool takes_all(const RegexNode& node, const Tail& tail) const {
    if (node.greed == Greed::kPossessive) return true;
    if (node.greed == Greed::kLazy) return false;
    return tail.is_sure || (!tail.is_open && (classes_of(node.parts[0].set) & tail.first).none());
  }
  Tail run(std::uint32_t set, std::uint32_t min_count, std::uint32_t max_count, const Tail& tail) {
    Tail out;
    out.entry = add({.op = Op::kRun,
                     .next = tail.entry,
                     .set = set,
                     .min_count = min_count,
                     .max_count = max_count,
                     .memo = out_.runs_++});
    out.first = classes_of(set);
    if (min_count > 0) return out;
    out.first |= tail.first;
    out.is_sure = tail.is_sure;
    out.is_open = tail.is_open;
    return out;
  }

  /// Returns the classes with which the match of a node that is not nullable can begin.
  Classes first_of(const RegexNode& node) const {
    Classes classes;
    switch (node.kind) {
      case RegexKind::kSet:
        return classes_of(node.set);
      case RegexKind::kSequence:
        for (const RegexNode& part : node.parts) {
          classes |= first_of(part);
          if (!is_nullable(part)) break;
        }
        return classes;
      case RegexKind::kChoice:
      case RegexKind::kRepeat:
        for (const RegexNode& part : node.parts) classes |= first_of(part);
        return classes;
      case RegexKind::kEmpty:
      case RegexKind::kLook:
      case RegexKind::kAnchor:
        return classes;
    }
    return classes;
  }

  const Regex& regex_;
  SplitRegex& out_;
};

Problem SplitRegex::compile(std::string_view expression) {
  *this = {};
  Regex regex;
  if (Problem problem = parse_regex(expression, regex); !problem.empty()) return problem;
  if (is_nullable(regex.root)) return not_supported("a pattern that may match nothing");
  if (!classes_.build(regex.sets)) return not_supported("a pattern of so many kinds of characters");
  return RegexCompiler(regex, *this).compile();
}

void RegexMatcher::set_text(std::string_view text) {
  text_ = text;
  for (auto* const marks : {&failed_, &succeeded_, &look_failed_, &look_succeeded_}) marks->clear();
  known_runs_.assign(regex_.runs_, {});
}

std::size_t RegexMatcher::match(std::size_t place) {
  const std::size_t end = run(regex_.entry_, place, false);
  return end == kNoMatch ? 0 : end - place;
}

CharacterClasses::Class RegexMatcher::before(std::size_t place) const {
  if (place == 0) return CharacterClasses::kEnd;
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(4, place) && !byte_level_; ++bytes)
    if (const auto c = at(place - bytes); c.bytes == bytes && bytes > 1) return c.kind;
  return at(place - 1).kind;
}

bool RegexMatcher::holds(Anchor anchor, std::size_t place) const {
  constexpr std::size_t kWordSet = 0;
  // In byte-level spelling a line feed is U+010A, which does not end a line.
  const auto is_line_end = [&](std::size_t i) { return !byte_level_ && text_[i] == '\n'; };
  switch (anchor) {
    case Anchor::kLineBegin:
      return place == 0 || (is_line_end(place - 1) && place < text_.size());
    case Anchor::kLineEnd:
      return place == text_.size() || is_line_end(place);
    case Anchor::kTextBegin:
      return place == 0;
    case Anchor::kTextEnd:
      return place == text_.size();
    case Anchor::kTextOrLastLineEnd:
      return place == text_.size() || (place + 1 == text_.size() && is_line_end(place));
    case Anchor::kWordBoundary:
    case Anchor::kNoWordBoundary: {
      const bool left = regex_.classes_.has(kWordSet, before(place));
      const bool right = regex_.classes_.has(kWordSet, at(place).kind);
      return (left != right) == (anchor == Anchor::kWordBoundary);
    }
  }
  return false;
}

bool RegexMatcher::looks(const SplitRegex::Instruction& look, std::size_t place) {
  if (look.lookbehind) return regex_.classes_.has(look.set, before(place)) != look.negated;
  bool found = is_marked(look_succeeded_, regex_.looks_, look.memo, place);
  if (!found && !is_marked(look_failed_, regex_.looks_, look.memo, place)) {
    found = run(look.body, place, true) != kNoMatch;
    mark(found ? look_succeeded_ : look_failed_, regex_.looks_, look.memo, place);
  }
  return found != look.negated;
}

std::size_t RegexMatcher::end_of_run(const SplitRegex::Instruction& run, std::size_t place) {
  KnownRun& known = known_runs_[run.memo];
  const bool endless = run.max_count == kNoLimit;
  if (endless && place >= known.begin && place < known.end) return known.end;
  std::size_t end = place;
  std::uint32_t found = 0;
  for (; found != run.max_count; ++found) {
    const CharacterClasses::At c = at(end);
    if (!regex_.classes_.has(run.set, c.kind)) break;
    end += c.bytes;
  }
  if (endless) known = {place, end};
  return found < run.min_count ? kNoMatch : end;
}

std::size_t RegexMatcher::run(std::uint32_t entry, std::size_t place, bool looking) {
  const std::size_t base = stack_.size();
  std::uint32_t at_instruction = entry;
  for (;;) {
    const SplitRegex::Instruction& now = regex_.code_[at_instruction];
    bool matches = false;
    switch (now.op) {
      case SplitRegex::Op::kAccept:
        matches = true;
        break;
      case SplitRegex::Op::kSet: {
        const CharacterClasses::At c = at(place);
        matches = regex_.classes_.has(now.set, c.kind);
        place += c.bytes;
        break;
      }
      case SplitRegex::Op::kRun: {
        const std::size_t end = end_of_run(now, place);
        matches = end != kNoMatch;
        place = end;
        break;
      }
      case SplitRegex::Op::kAnchor:
        matches = holds(now.anchor, place);
        break;
      case SplitRegex::Op::kLook:
        matches = looks(now, place);
        break;
      case SplitRegex::Op::kChoice:
        if (!is_marked(failed_, regex_.choices_, now.memo, place))
          stack_.push_back({at_instruction, 0, place});
        break;
    }
    const bool found = (now.op == SplitRegex::Op::kAccept) ||
                       (looking && now.op == SplitRegex::Op::kChoice &&
                        is_marked(succeeded_, regex_.choices_, now.memo, place));
    if (found) {
      // All entries left on the stack led to this match.
      if (looking)
        for (std::size_t i = base; i < stack_.size(); ++i)
          mark(succeeded_, regex_.choices_, regex_.code_[stack_[i].instruction].memo,
               stack_[i].place);
      stack_.resize(base);
      return place;
    }
    if (matches) {
      at_instruction = now.next;
      continue;
    }
    // Return to the last choice that has an untried branch.
    for (;; stack_.pop_back()) {
      if (stack_.size() == base) return kNoMatch;
      Frame& frame = stack_.back();
      const SplitRegex::Instruction& choice = regex_.code_[frame.instruction];
      const SplitRegex::Branch* const branches = regex_.branches_.data() + choice.first;
      const CharacterClasses::Class next = at(frame.place).kind;
      while (frame.branch < choice.count && !branches[frame.branch].first[next]) ++frame.branch;
      if (frame.branch < choice.count) {
        at_instruction = branches[frame.branch++].entry;
        place = frame.place;
        break;
      }
      mark(failed_, regex_.choices_, choice.memo, frame.place);
    }
  }
}

}  // namespace llmc::hosted
