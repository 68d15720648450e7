#include "runtime/hosted/tokenizer/pretokenizers.h"

#include <algorithm>

#include "runtime/hosted/tokenizer/split_regex.h"

namespace llmc::hosted {
namespace {

struct Span {
  std::size_t begin, end;
  bool match;
};

/// Finds the matches in `text` and the spans between them. `match(at)` returns the size of the
/// match at this position, or 0.
template <class Match, class Next>
void find_spans(std::string_view text, Match&& match, Next&& next, std::vector<Span>& spans) {
  spans.clear();
  std::size_t start = 0, at = 0;
  while (at < text.size()) {
    const std::size_t bytes = match(at);
    if (bytes == 0) {
      at += next(at);
      continue;
    }
    if (at > start) spans.push_back({start, at, false});
    spans.push_back({at, at + bytes, true});
    at += bytes;
    start = at;
  }
  if (text.size() > start) spans.push_back({start, text.size(), false});
}

/// Joins spans according to the behavior. In the result, `match` means that the span is removed.
void arrange(SplitBehavior behavior, std::vector<Span>& spans) {
  if (behavior == SplitBehavior::kRemoved) return;
  const auto join = [&](auto begin, auto end, auto&& joins) {
    std::vector<Span> joined;
    bool before = false;
    for (auto it = begin; it != end; ++it) {
      if (!joined.empty() && joins(it->match, before)) {
        joined.back().begin = std::min(joined.back().begin, it->begin);
        joined.back().end = std::max(joined.back().end, it->end);
      } else {
        joined.push_back(*it);
      }
      before = it->match;
    }
    return joined;
  };
  const auto joins_other = [](bool match, bool before) { return match && !before; };
  if (behavior == SplitBehavior::kContiguous) {
    spans =
        join(spans.begin(), spans.end(), [](bool match, bool before) { return match == before; });
  } else if (behavior == SplitBehavior::kMergedWithPrevious) {
    spans = join(spans.begin(), spans.end(), joins_other);
  } else if (behavior == SplitBehavior::kMergedWithNext) {
    spans = join(spans.rbegin(), spans.rend(), joins_other);
    std::reverse(spans.begin(), spans.end());
  }
  for (Span& span : spans) span.match = false;
}

/// Splits every part into the spans that find(text, spans) sets.
template <class Find>
void split(std::vector<Part>& parts, SplitBehavior behavior, bool inverted, Find&& find) {
  std::vector<Part> out;
  std::vector<Span> spans;
  for (const Part& part : parts) {
    find(part.text, spans);
    if (inverted)
      for (Span& span : spans) span.match = !span.match;
    arrange(behavior, spans);
    for (const Span& span : spans)
      if (!span.match)
        out.push_back(
            {part.text.substr(span.begin, span.end - span.begin), part.begins && span.begin == 0});
  }
  parts = std::move(out);
}

void split_at(std::string_view literal, SplitBehavior behavior, bool inverted,
              std::vector<Part>& parts) {
  split(parts, behavior, inverted, [&](std::string_view text, std::vector<Span>& spans) {
    spans.clear();
    std::size_t start = 0;
    for (std::size_t at; (at = text.find(literal, start)) != std::string_view::npos;) {
      if (at > start) spans.push_back({start, at, false});
      start = at + literal.size();
      spans.push_back({at, start, true});
    }
    if (text.size() > start) spans.push_back({start, text.size(), false});
  });
}

void metaspace(std::string_view mark, std::uint32_t flags, std::vector<Part>& parts,
               TextStore& store) {
  for (Part& part : parts) {
    std::string text;
    for (const char c : part.text) {
      if (c == ' ')
        text += mark;
      else
        text += c;
    }
    const bool wanted =
        (flags & kMetaspaceAlways) != 0 || ((flags & kMetaspaceFirst) != 0 && part.begins);
    if (wanted && !text.starts_with(mark)) text.insert(0, mark);
    part.text = store.emplace_back(std::move(text));
  }
  if ((flags & kMetaspaceSplits) != 0) split_at(mark, SplitBehavior::kMergedWithNext, false, parts);
}

}  // namespace

bool is_pretokenizer(const StepRecord& step) {
  if (step.kind >= static_cast<std::uint32_t>(Pretokenizer::kCount)) return false;
  const auto kind = static_cast<Pretokenizer>(step.kind);
  const bool behaves = (step.flags >> 8 & 0xFF) < static_cast<std::uint32_t>(SplitBehavior::kCount);
  if (kind == Pretokenizer::kPattern || kind == Pretokenizer::kLiteral)
    return behaves && step.first.bytes > 0;
  return kind != Pretokenizer::kMetaspace || step.first.bytes > 0;
}

void pretokenize(const Tables& tables, std::size_t index, std::vector<Part>& parts,
                 TextStore& store) {
  const StepRecord& step = tables.pretokenizers()[index];
  const auto behavior = static_cast<SplitBehavior>(step.flags >> 8 & 0xFF);
  const bool inverted = (step.flags & kSplitInverted) != 0;
  switch (static_cast<Pretokenizer>(step.kind)) {
    case Pretokenizer::kPattern: {
      RegexMatcher matcher(tables.pattern(index), (step.flags & kSplitByteLevel) != 0);
      return split(parts, behavior, inverted, [&](std::string_view text, std::vector<Span>& spans) {
        matcher.set_text(text);
        find_spans(
            text, [&](std::size_t at) { return matcher.match(at); },
            [&](std::size_t at) { return matcher.character(at); }, spans);
      });
    }
    case Pretokenizer::kLiteral:
      return split_at(tables.text(step.first), behavior, inverted, parts);
    case Pretokenizer::kSpaceInFront:
      for (Part& part : parts)
        if (!part.text.starts_with(' '))
          part.text = store.emplace_back(" " + std::string(part.text));
      return;
    case Pretokenizer::kMetaspace:
      return metaspace(tables.text(step.first), step.flags, parts, store);
    case Pretokenizer::kCount:
      return;
  }
}

}  // namespace llmc::hosted
