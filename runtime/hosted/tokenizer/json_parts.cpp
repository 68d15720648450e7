#include "runtime/hosted/tokenizer/json_parts.h"

#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/split_regex.h"
#include "runtime/hosted/tokenizer/unicode.h"

namespace llmc::hosted {
namespace {

std::string type_of(const Json& part) {
  return json_text(json_member(part, "type"));
}
Problem named(const std::string& what, const std::string& type) {
  return not_supported("the " + what + " " + (type.empty() ? "none" : type));
}

/// Calls `read` for each part of a sequence, or for the single part.
template <class Read>
Problem each_part(const Json& parts, Read&& read) {
  if (!parts.is_array()) return "a sequence has no list of parts";
  for (const Json& part : parts)
    if (Problem problem = read(part); !problem.empty()) return problem;
  return {};
}

Problem read_replace(const Json& part, std::vector<SpecStep>& steps) {
  const std::string to = json_text(json_member(part, "content"));
  const Json& pattern = json_member(part, "pattern");
  const Json& literal = json_member(pattern, "String");
  if (literal.is_string()) {
    if (json_text(literal).empty()) return "a replacement of nothing";
    steps.push_back(step_of(Normalizer::kReplace, 0, json_text(literal), to));
    return {};
  }
  const std::string expression = json_text(json_member(pattern, "Regex"));
  if (expression != R"(\s+)" && expression != " {2,}")
    return not_supported("the replacement of '" + expression + "'");
  steps.push_back(step_of(Normalizer::kReplaceSpaces, expression == R"(\s+)" ? 1 : 2, {}, to));
  return {};
}

Problem read_normalizer(const Json& part, std::vector<SpecStep>& steps, int depth) {
  if (part.is_null()) return {};
  const std::string type = type_of(part);
  if (depth > kMaxDepth) return "normalizers nested too deeply";
  if (type == "Sequence")
    return each_part(json_member(part, "normalizers"),
                     [&](const Json& inner) { return read_normalizer(inner, steps, depth + 1); });
  const auto form = [&](NormalForm which) {
    steps.push_back(step_of(Normalizer::kForm, static_cast<std::uint32_t>(which)));
  };
  if (type == "NFC") return form(NormalForm::kNfc), "";
  if (type == "NFD") return form(NormalForm::kNfd), "";
  if (type == "NFKC") return form(NormalForm::kNfkc), "";
  if (type == "NFKD") return form(NormalForm::kNfkd), "";
  if (type == "Replace") return read_replace(part, steps);
  if (type == "Lowercase") {
    steps.push_back(step_of(Normalizer::kLowercase));
  } else if (type == "Prepend") {
    steps.push_back(step_of(Normalizer::kPrepend, 0, json_text(json_member(part, "prepend"))));
  } else if (type == "Strip") {
    const unsigned sides = (json_flag(json_member(part, "strip_left"), true) ? 1u : 0u) |
                           (json_flag(json_member(part, "strip_right"), true) ? 2u : 0u);
    steps.push_back(step_of(Normalizer::kStrip, sides));
  } else if (type == "StripAccents") {
    steps.push_back(step_of(Normalizer::kDropMarks, kMarks));
  } else if (type == "BertNormalizer") {
    const bool lowercase = json_flag(json_member(part, "lowercase"), true);
    TokenizerSpec bert;
    add_bert_steps(json_flag(json_member(part, "clean_text"), true),
                   json_flag(json_member(part, "handle_chinese_chars"), true),
                   json_flag(json_member(part, "strip_accents"), lowercase), lowercase, bert);
    steps.insert(steps.end(), bert.normalizers.begin(), bert.normalizers.end());
  } else if (type == "Precompiled") {
    const auto map = decode_base64(json_text(json_member(part, "precompiled_charsmap")));
    if (!map || (!map->empty() && !Charsmap::is_whole(*map)))
      return "the text replacement rules are damaged";
    if (!map->empty()) steps.push_back(step_of(Normalizer::kCharsmap, 0, *map));
  } else {
    return named("normalizer", type);
  }
  return {};
}

std::optional<SplitBehavior> behavior_of(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return std::nullopt;
}

/// Unicode's punctuation, and the symbols of ASCII.
constexpr std::string_view kPunctuationPattern = R"([\p{P}!-/:-@\[-`{-~])";

/// Reads pre-tokenizers in order.
class SplitterReader {
 public:
  SplitterReader(std::vector<SpecStep>& steps, bool& byte_level)
      : steps_(steps), byte_level_(byte_level) {}

  Problem read(const Json& part, int depth = 0) {
    if (part.is_null()) return {};
    if (depth > kMaxDepth) return "pre-tokenizers nested too deeply";
    const std::string type = type_of(part);
    if (type == "Sequence")
      return each_part(json_member(part, "pretokenizers"),
                       [&](const Json& inner) { return read(inner, depth + 1); });
    if (type == "ByteLevel") return byte_level(part);
    if (type == "Split") return split(part);
    if (type == "Digits") {
      const bool each = json_flag(json_member(part, "individual_digits"));
      pattern(R"(\p{N})", each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
      return {};
    }
    if (type == "Punctuation") {
      const Json& name = json_member(part, "behavior");
      const auto behavior =
          name.is_null() ? SplitBehavior::kIsolated : behavior_of(json_text(name));
      if (!behavior) return not_supported("punctuation " + json_text(name));
      pattern(kPunctuationPattern, *behavior);
      return {};
    }
    if (byte_level_) return named("pre-tokenizer", type + " after ByteLevel");
    return of_characters(part, type);
  }

 private:
  void pattern(std::string_view expression, SplitBehavior behavior, bool inverted = false) {
    steps_.push_back(
        split_step(expression, behavior,
                   (inverted ? kSplitInverted : 0u) | (byte_level_ ? kSplitByteLevel : 0u)));
  }

  Problem byte_level(const Json& part) {
    if (byte_level_) return named("pre-tokenizer", "ByteLevel after ByteLevel");
    if (json_flag(json_member(part, "add_prefix_space"), true))
      steps_.push_back(step_of(Pretokenizer::kSpaceInFront));
    if (json_flag(json_member(part, "use_regex"), true))
      pattern(*pattern_named("gpt2"), SplitBehavior::kIsolated);
    byte_level_ = true;
    return {};
  }

  Problem split(const Json& part) {
    const std::string name = json_text(json_member(part, "behavior"));
    const auto behavior = behavior_of(name);
    if (!behavior) return not_supported("a split that is " + name);
    const bool inverted = json_flag(json_member(part, "invert"));
    const Json& literal = json_member(json_member(part, "pattern"), "String");
    if (literal.is_string()) {
      if (byte_level_) return named("pre-tokenizer", "Split of a text after ByteLevel");
      if (json_text(literal).empty()) return "a split at nothing";
      steps_.push_back(
          step_of(Pretokenizer::kLiteral,
                  static_cast<std::uint32_t>(*behavior) << 8 | (inverted ? kSplitInverted : 0u),
                  json_text(literal)));
      return {};
    }
    const std::string expression = json_text(json_member(json_member(part, "pattern"), "Regex"));
    SplitRegex regex;
    if (const Problem problem = regex.compile(expression); !problem.empty())
      return {"the pattern of the pre-tokenizer, '" + expression + "': " + problem.text,
              problem.unsupported};
    pattern(expression, *behavior, inverted);
    return {};
  }

  Problem of_characters(const Json& part, const std::string& type) {
    if (type == "Whitespace") {
      pattern(R"([\w\x{200C}\x{200D}]+|[^\w\x{200C}\x{200D}\s]+)", SplitBehavior::kRemoved, true);
    } else if (type == "WhitespaceSplit") {
      pattern(R"(\s)", SplitBehavior::kRemoved);
    } else if (type == "BertPreTokenizer") {
      pattern(R"(\s)", SplitBehavior::kRemoved);
      pattern(kPunctuationPattern, SplitBehavior::kIsolated);
    } else if (type == "CharDelimiterSplit" && !json_text(json_member(part, "delimiter")).empty()) {
      steps_.push_back(step_of(Pretokenizer::kLiteral,
                               static_cast<std::uint32_t>(SplitBehavior::kRemoved) << 8,
                               json_text(json_member(part, "delimiter"))));
    } else if (type == "Metaspace") {
      const Json& mark = json_member(part, "replacement");
      const Json& scheme = json_member(part, "prepend_scheme");
      std::string where = scheme.is_null() ? "always" : json_text(scheme);
      if (!json_flag(json_member(part, "add_prefix_space"), true)) where = "never";
      std::uint32_t flags = json_flag(json_member(part, "split"), true) ? kMetaspaceSplits : 0u;
      if (where == "always") flags |= kMetaspaceAlways;
      if (where == "first") flags |= kMetaspaceFirst;
      if (where != "always" && where != "first" && where != "never")
        return not_supported("Metaspace with prepend_scheme " + where);
      steps_.push_back(step_of(Pretokenizer::kMetaspace, flags,
                               mark.is_null() ? std::string(kSpaceMark) : json_text(mark)));
      if (steps_.back().first.empty()) return "a Metaspace without its mark";
    } else {
      return named("pre-tokenizer", type);
    }
    return {};
  }

  std::vector<SpecStep>& steps_;
  bool& byte_level_;
};

}  // namespace

const Json& json_member(const Json& object, const char* name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(name);
  return it == object.end() ? kNothing : *it;
}
std::string json_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}
bool json_flag(const Json& value, bool otherwise) {
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

Problem read_normalizer(const Json& normalizer, std::vector<SpecStep>& steps) {
  return read_normalizer(normalizer, steps, 0);
}

Problem read_pretokenizer(const Json& splitter, std::vector<SpecStep>& steps, bool& byte_level) {
  return SplitterReader(steps, byte_level).read(splitter);
}

void add_bert_steps(bool clean, bool ideographs, bool strip_accents, bool lowercase,
                    TokenizerSpec& out) {
  auto& steps = out.normalizers;
  if (clean) steps.push_back(step_of(Normalizer::kClean));
  if (ideographs) steps.push_back(step_of(Normalizer::kSpaceIdeographs));
  if (strip_accents) {
    steps.push_back(step_of(Normalizer::kForm, static_cast<std::uint32_t>(NormalForm::kNfd)));
    steps.push_back(step_of(Normalizer::kDropMarks, set_of(Category::kMn)));
  }
  if (lowercase) steps.push_back(step_of(Normalizer::kLowercase));
}

void add_bert_splitting(TokenizerSpec& out) {
  bool byte_level = false;
  SplitterReader(out.pretokenizers, byte_level).read(Json{{"type", "BertPreTokenizer"}});
}

}  // namespace llmc::hosted
