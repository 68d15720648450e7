#include "runtime/hosted/tokenizer/normalizers.h"

#include <algorithm>

#include "runtime/hosted/tokenizer/unicode.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// Calls each(character, its bytes) for each character. A byte that is not UTF-8 is passed as the
/// character 0xFFFFFFFF.
template <class Each>
void for_characters(std::string_view text, Each&& each) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    const std::size_t bytes = std::max<std::size_t>(1, c.bytes);
    each(c.bytes == 0 ? 0xFFFFFFFFu : c.code_point, text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

bool is_space_or_none(std::uint32_t c) {
  return c <= 0x10FFFF && is_space(c);
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    if (c > 0x10FFFF)
      out += bytes;
    else
      append_lower(c, out);
  });
  return out;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at; (at = text.find(from)) != std::string_view::npos;) {
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  return out += text;
}

std::string replace_spaces(std::string_view text, bool any_space, std::string_view to) {
  std::string out;
  std::string_view run;  // spaces that are not written yet
  const std::size_t least = any_space ? 1 : 2;
  const auto finish = [&] { out += run.size() >= least ? to : run; };
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    if (any_space ? is_space_or_none(c) : c == ' ') {
      run = run.empty() ? bytes : std::string_view(run.data(), run.size() + bytes.size());
      return;
    }
    if (!run.empty()) finish();
    run = {};
    out += bytes;
  });
  if (!run.empty()) finish();
  return out;
}

std::string strip(std::string_view text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0, at = 0;
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    if (!is_space_or_none(c)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  if (!left) begin = 0;
  if (!right) end = text.size();
  return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

std::string drop_marks(std::string_view text, CategorySet set) {
  std::string out;
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    if (c > 0x10FFFF || !is_in(c, set)) out += bytes;
  });
  return out;
}

std::string clean(std::string_view text) {
  // Without unassigned characters.
  constexpr CategorySet kOthers = set_of(Category::kCc, Category::kCo);
  std::string out;
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    if (c > 0x10FFFF || c == 0 || c == 0xFFFD) return;
    const bool line = c == '\t' || c == '\n' || c == '\r';
    if (!line && is_in(c, kOthers)) return;
    out += is_space(c) ? std::string_view(" ") : bytes;
  });
  return out;
}

bool is_chinese(std::uint32_t c) {
  static constexpr std::uint32_t kRanges[][2] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const auto& range) { return c >= range[0] && c <= range[1]; });
}

std::string space_ideographs(std::string_view text) {
  std::string out;
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    if (is_chinese(c)) out += ' ';
    out += bytes;
    if (is_chinese(c)) out += ' ';
  });
  return out;
}

std::string valid(std::string_view text) {
  std::string out;
  for_characters(text, [&](std::uint32_t c, std::string_view bytes) {
    out += c > 0x10FFFF ? kReplacement : bytes;
  });
  return out;
}

/// Does the same as Hugging Face's Precompiled. A short cluster at whose start a rule matches is
/// replaced as a whole. In other clusters, each character is looked up.
std::string map_clusters(std::string_view text, const Charsmap& map) {
  std::string out;
  while (!text.empty()) {
    std::string_view cluster = text.substr(0, first_grapheme(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() < 6) {
      if (const Charsmap::Match rule = map.find(cluster, false); rule.bytes > 0) {
        out += rule.text;
        continue;
      }
    }
    for_characters(cluster, [&](std::uint32_t, std::string_view bytes) {
      const Charsmap::Match rule = map.find(bytes, false);
      out += rule.bytes > 0 ? rule.text : bytes;
    });
  }
  return out;
}

/// Implements sentencepiece's normalization, with the same steps.
class SentencePieceNormalizer {
 public:
  SentencePieceNormalizer(const Tables& tables, const StepRecord& step)
      : symbols_(tables.symbols()), map_(tables.text(step.first)), flags_(step.flags) {}

  std::string run(std::string_view input) const {
    const bool trim = has(kRemoveExtraSpaces);
    while (trim && !input.empty()) {
      const Charsmap::Match step = next(input);
      if (step.text != " ") break;
      input.remove_prefix(step.bytes);
    }
    if (input.empty()) return {};
    const std::string_view space = has(kEscapeSpaces) ? kSpaceMark : std::string_view(" ");
    std::string output;
    output.reserve(input.size() * 3 / 2 + space.size());
    if (has(kAddSpace) && !has(kSpaceAsSuffix)) output += space;
    bool after_space = trim;
    while (!input.empty()) {
      const Charsmap::Match step = next(input);
      std::string_view text = step.text;
      while (after_space && !text.empty() && text[0] == ' ') text.remove_prefix(1);
      for (const char c : text) {
        if (c == ' ')
          output += space;
        else
          output += c;
      }
      if (!text.empty()) after_space = trim && text.back() == ' ';
      input.remove_prefix(step.bytes);
    }
    while (trim && output.ends_with(space)) output.resize(output.size() - space.size());
    if (has(kAddSpace) && has(kSpaceAsSuffix)) output += space;
    return output;
  }

 private:
  bool has(SentencePieceFlag flag) const { return (flags_ & flag) != 0; }
  /// Returns the replacement of the next characters. User-defined symbols are not changed.
  Charsmap::Match next(std::string_view input) const {
    if (const IndexRecord* symbol = symbols_.longest(input))
      return {input.substr(0, symbol->text.bytes), symbol->text.bytes};
    if (const Charsmap::Match rule = map_.find(input, true); rule.bytes > 0) return rule;
    const std::size_t bytes = decode_utf8(input).bytes;
    if (bytes == 0) return {kReplacement, 1};
    return {input.substr(0, bytes), bytes};
  }

  const TextIndex& symbols_;
  const Charsmap map_;
  const std::uint32_t flags_;
};

}  // namespace

bool is_normalizer(const Tables& tables, const StepRecord& step) {
  if (step.kind >= static_cast<std::uint32_t>(Normalizer::kCount)) return false;
  const auto kind = static_cast<Normalizer>(step.kind);
  const std::string_view first = tables.text(step.first);
  if (kind == Normalizer::kForm) return step.flags <= static_cast<unsigned>(NormalForm::kNfkd);
  if (kind == Normalizer::kReplace) return !first.empty();
  if (kind == Normalizer::kCharsmap) return Charsmap::is_whole(first);
  if (kind == Normalizer::kSentencePiece) return first.empty() || Charsmap::is_whole(first);
  return true;
}

std::string normalize(const Tables& tables, const StepRecord& step, std::string text) {
  const std::string_view first = tables.text(step.first), second = tables.text(step.second);
  switch (static_cast<Normalizer>(step.kind)) {
    case Normalizer::kForm:
      return normalize_unicode(text, static_cast<NormalForm>(step.flags));
    case Normalizer::kLowercase:
      return lowercase(text);
    case Normalizer::kReplace:
      return replace(text, first, second);
    case Normalizer::kReplaceSpaces:
      return replace_spaces(text, step.flags == 1, second);
    case Normalizer::kPrepend:
      return text.empty() ? text : std::string(first) + text;
    case Normalizer::kStrip:
      return strip(text, (step.flags & 1) != 0, (step.flags & 2) != 0);
    case Normalizer::kDropMarks:
      return drop_marks(text, step.flags);
    case Normalizer::kClean:
      return clean(text);
    case Normalizer::kSpaceIdeographs:
      return space_ideographs(text);
    case Normalizer::kCharsmap:
      return map_clusters(text, Charsmap(first));
    case Normalizer::kSentencePiece:
      return SentencePieceNormalizer(tables, step).run(text);
    case Normalizer::kValid:
      return valid(text);
    case Normalizer::kCount:
      break;
  }
  return text;
}

}  // namespace llmc::hosted
