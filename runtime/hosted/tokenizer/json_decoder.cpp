#include <charconv>

#include "runtime/hosted/tokenizer/json_parts.h"

namespace llmc::hosted {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Converts "<0xNN>" to this byte.
std::string byte_fallback(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return token;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return token;
  return std::string(1, static_cast<char>(value));
}

Problem read_strip(const Json& part, Decoding& decoding) {
  const Json& start = json_member(part, "start");
  const Json& stop = json_member(part, "stop");
  const bool counts = start.is_number_unsigned() && stop.is_number_unsigned();
  if (counts && start == 0 && stop == 0) return {};
  if (!counts || start != 1 || stop != 0 || json_text(json_member(part, "content")) != " " ||
      !decoding.fused)
    return not_supported("the decoder Strip other than of one space at the start");
  decoding.leading = Tokenizer::LeadingSpaces::kOneSpaceDropped;
  return {};
}

Problem read_decoder(const Json& part, Decoding& decoding, int depth) {
  const std::string type = json_text(json_member(part, "type"));
  if (depth > kMaxDepth) return "decoders nested too deeply";
  if (type == "Sequence") {
    const Json& parts = json_member(part, "decoders");
    if (!parts.is_array()) return "a sequence has no list of parts";
    for (const Json& inner : parts)
      if (Problem problem = read_decoder(inner, decoding, depth + 1); !problem.empty())
        return problem;
    return {};
  }
  if (type == "Strip") return read_strip(part, decoding);
  if (type == "Fuse") {
    decoding.fused = true;
    return {};
  }
  if (decoding.fused) return not_supported("the decoder " + type + " after Fuse");
  if (type == "ByteLevel") {
    decoding.byte_level = true;
  } else if (type == "ByteFallback") {
    decoding.steps.emplace_back(byte_fallback);
  } else if (type == "Replace") {
    const Json& literal = json_member(json_member(part, "pattern"), "String");
    const std::string from = json_text(literal), to = json_text(json_member(part, "content"));
    if (from.empty()) return not_supported("the decoder Replace of a pattern");
    decoding.steps.emplace_back(
        [from, to](const std::string& token) { return replaced(token, from, to); });
  } else if (type == "Metaspace") {
    const Json& mark = json_member(part, "replacement");
    if (!mark.is_null() && json_text(mark) != kSpaceMark)
      return not_supported("the decoder Metaspace with another mark than U+2581");
    const Json& scheme = json_member(part, "prepend_scheme");
    const bool never = !json_flag(json_member(part, "add_prefix_space"), true) ||
                       (scheme.is_string() && json_text(scheme) == "never");
    if (!never) decoding.leading = Tokenizer::LeadingSpaces::kFirstTokenDropped;
    decoding.steps.emplace_back(
        [](const std::string& token) { return replaced(token, std::string(kSpaceMark), " "); });
  } else if (type == "WordPiece") {
    const Json& given = json_member(part, "prefix");
    const std::string prefix = given.is_null() ? "##" : json_text(given);
    const bool tidy = json_flag(json_member(part, "cleanup"), true);
    decoding.leading = Tokenizer::LeadingSpaces::kOneSpaceDropped;
    decoding.steps.emplace_back([prefix, tidy](const std::string& token) {
      return word_piece_surface(token, prefix, tidy);
    });
  } else {
    return not_supported("the decoder " + (type.empty() ? "none" : type));
  }
  return {};
}

/// Reads the id in a pair such as ["[SEP]", 102].
bool read_pair(const Json& pair, std::vector<std::int32_t>& ids) {
  if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_unsigned() ||
      pair[1].get<std::uint64_t>() > INT32_MAX)
    return false;
  ids.push_back(pair[1].get<std::int32_t>());
  return true;
}

Problem read_template(const Json& processor, SpecialIds& ids) {
  const Json& known = json_member(processor, "special_tokens");
  bool after = false;
  for (const Json& part : json_member(processor, "single")) {
    if (part.is_object() && part.contains("Sequence")) {
      if (after) return not_supported("a template with two texts");
      after = true;
      continue;
    }
    const std::string name = json_text(json_member(json_member(part, "SpecialToken"), "id"));
    const Json& token = json_member(json_member(known, name.c_str()), "ids");
    if (!token.is_array()) return "a template names a token that it does not have";
    for (const Json& id : token) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX)
        return "a template's token has no id";
      (after ? ids.suffix : ids.prefix).push_back(id.get<std::int32_t>());
    }
  }
  return {};
}

Problem read_post_processor(const Json& processor, SpecialIds& ids, int depth) {
  if (processor.is_null()) return {};
  const std::string type = json_text(json_member(processor, "type"));
  if (depth > kMaxDepth) return "post-processors nested too deeply";
  if (type == "ByteLevel") return {};  // changes only offsets
  if (type == "Sequence") {
    const Json& parts = json_member(processor, "processors");
    if (!parts.is_array()) return "a sequence has no list of parts";
    for (const Json& part : parts)
      if (Problem problem = read_post_processor(part, ids, depth + 1); !problem.empty())
        return problem;
    return {};
  }
  if (!ids.prefix.empty() || !ids.suffix.empty()) return not_supported("a second template");
  if (type == "TemplateProcessing") return read_template(processor, ids);
  if (type != "BertProcessing" && type != "RobertaProcessing")
    return not_supported("the post-processor " + type);
  if (!read_pair(json_member(processor, "cls"), ids.prefix) ||
      !read_pair(json_member(processor, "sep"), ids.suffix))
    return "the post-processor " + type + " has no ids";
  return {};
}

}  // namespace

Problem read_decoder(const Json& decoder, Decoding& decoding) {
  Problem problem = read_decoder(decoder, decoding, 0);
  if (problem.empty() && decoding.byte_level && !decoding.steps.empty())
    problem = not_supported("the decoder ByteLevel among others");
  return problem;
}

Problem read_post_processor(const Json& processor, SpecialIds& ids) {
  return read_post_processor(processor, ids, 0);
}

std::string word_piece_surface(std::string_view name, std::string_view continuation, bool tidy) {
  std::string text;
  if (!continuation.empty() && name.starts_with(continuation))
    text = name.substr(continuation.size());
  else
    text = " " + std::string(name);
  if (!tidy) return text;
  // The replacements in the order of Hugging Face's clean-up.
  static constexpr const char* kTidied[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kTidied) text = replaced(std::move(text), from, to);
  return text;
}

}  // namespace llmc::hosted
