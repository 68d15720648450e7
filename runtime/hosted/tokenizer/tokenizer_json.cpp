#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "runtime/hosted/tokenizer/utf8.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostTokens = std::size_t{1} << 24;

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(name);
  return it == object.end() ? kNothing : *it;
}
std::string text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}
bool flag(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}
/// Neither there, nor null, nor an empty text.
bool absent(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

/// The bytes that a token's printable spelling stands for (GPT-2's bytes_to_unicode): printable
/// Latin-1 characters are themselves, the other bytes are U+0100 and up, in order. nullopt when
/// another character stands there.
std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  static const std::unordered_map<std::uint32_t, char> kBytes = [] {
    std::unordered_map<std::uint32_t, char> table;
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      table.emplace(itself ? byte : next++, static_cast<char>(byte));
    }
    return table;
  }();
  std::string bytes;
  while (!spelling.empty()) {
    const Utf8Char c = decode_utf8(spelling);
    const auto it = c.bytes == 0 ? kBytes.end() : kBytes.find(c.code_point);
    if (it == kBytes.end()) return std::nullopt;
    bytes += it->second;
    spelling.remove_prefix(c.bytes);
  }
  return bytes;
}

/// Reads the file's parts one after the other; the first problem sticks.
class Reader {
 public:
  explicit Reader(const Json& root) : root_(root) {}

  std::string read(ByteLevelVocabulary& out) {
    if (const Json& normalizer = member(root_, "normalizer"); !normalizer.is_null())
      refuse("the normalizer " + text(member(normalizer, "type")));
    read_model(out);
    if (problem_.empty()) read_added(out);
    if (problem_.empty()) read_splitting(member(root_, "pre_tokenizer"), out);
    if (problem_.empty()) read_prefix(member(root_, "post_processor"), out);
    const std::string decoder = text(member(member(root_, "decoder"), "type"));
    if (decoder != "ByteLevel") refuse("the decoder " + (decoder.empty() ? "none" : decoder));
    return problem_;
  }

 private:
  void refuse(const std::string& what) {
    if (problem_.empty()) problem_ = what + " is not supported";
  }
  void bad(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  void read_model(ByteLevelVocabulary& out) {
    const Json& model = member(root_, "model");
    const std::string type = text(member(model, "type"));
    // Old files leave the type out; merges are what only this model has.
    if (type != "BPE" && !(type.empty() && member(model, "merges").is_array()))
      return refuse("a model of type '" + type + "'");
    for (const char* name :
         {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
      if (!absent(member(model, name))) return refuse(std::string("BPE with ") + name);
    if (flag(member(model, "byte_fallback"))) return refuse("BPE with byte_fallback");
    out.ignore_merges = flag(member(model, "ignore_merges"));
    const Json& vocabulary = member(model, "vocab");
    if (!vocabulary.is_object()) return bad("the model has no vocab");
    for (const auto& [spelling, id] : vocabulary.items()) {
      // Added tokens stand in the vocabulary too, spelled as they are.
      if (!place(out, id, bytes_of_spelling(spelling).value_or(spelling))) return;
      spelled_.emplace(spelling, id.get<std::int32_t>());
    }
    const Json& merges = member(model, "merges");
    if (!merges.is_array()) return bad("the model has no merges");
    for (const Json& merge : merges)
      if (!read_merge(merge, out)) return bad("a merge is not of two tokens that make a third");
  }

  /// Puts a token at its id; false after a problem.
  bool place(ByteLevelVocabulary& out, const Json& id, std::string bytes) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostTokens) {
      bad("a token's id is out of range");
      return false;
    }
    const auto at = id.get<std::size_t>();
    if (at >= out.tokens.size()) {
      out.tokens.resize(at + 1);
      taken_.resize(at + 1);
    }
    if (taken_[at] && out.tokens[at] != bytes) {
      bad("two tokens have id " + std::to_string(at));
      return false;
    }
    taken_[at] = true;
    out.tokens[at] = std::move(bytes);
    return true;
  }

  /// "left right", or ["left", "right"] as newer files write it.
  bool read_merge(const Json& merge, ByteLevelVocabulary& out) {
    std::string left, right;
    if (merge.is_array() && merge.size() == 2) {
      left = text(merge[0]);
      right = text(merge[1]);
    } else {
      const std::string both = text(merge);
      const auto space = both.find(' ');
      if (space == std::string::npos) return false;
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    const auto l = spelled_.find(left), r = spelled_.find(right), u = spelled_.find(left + right);
    if (l == spelled_.end() || r == spelled_.end() || u == spelled_.end()) return false;
    out.merges.push_back({l->second, r->second, u->second});
    return true;
  }

  void read_added(ByteLevelVocabulary& out) {
    const Json& added = member(root_, "added_tokens");
    if (!added.is_array()) return;
    for (const Json& token : added) {
      const std::string content = text(member(token, "content"));
      if (content.empty()) return bad("an added token has no content");
      for (const char* name : {"single_word", "lstrip", "rstrip"})
        if (flag(member(token, name))) return refuse("added token '" + content + "' with " + name);
      const Json& id = member(token, "id");
      if (id.is_number_unsigned() && id.get<std::uint64_t>() < taken_.size())
        taken_[id.get<std::size_t>()] = false;  // its spelling in the vocabulary gives way
      if (!place(out, id, content)) return;
      out.added.push_back(id.get<std::int32_t>());
      if (flag(member(token, "special"))) out.ids.special.push_back(out.added.back());
      contents_.emplace(content, out.added.back());
    }
  }

  void read_splitting(const Json& splitter, ByteLevelVocabulary& out) {
    const std::string type = text(member(splitter, "type"));
    if (type == "ByteLevel") {
      out.space_in_front = flag(member(splitter, "add_prefix_space"));
      const Json& pattern = member(splitter, "use_regex");
      out.splits = pattern.is_null() || flag(pattern);
      out.pattern = SplitPattern::kGpt2;
      return;
    }
    const Json& parts = member(splitter, "pretokenizers");
    if (type != "Sequence" || !parts.is_array() || parts.size() != 2 ||
        text(member(parts[0], "type")) != "Split" || text(member(parts[1], "type")) != "ByteLevel")
      return refuse("the pre-tokenizer " + (type.empty() ? "none" : type));
    if (flag(member(parts[1], "use_regex")) || !member(parts[1], "use_regex").is_boolean() ||
        flag(member(parts[1], "add_prefix_space")))
      return refuse("a byte-level pre-tokenizer that splits what another one has split");
    if (text(member(parts[0], "behavior")) != "Isolated" || flag(member(parts[0], "invert")))
      return refuse("a split that is not isolated");
    const std::string pattern = text(member(member(parts[0], "pattern"), "Regex"));
    if (pattern ==
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)") {
      out.pattern = SplitPattern::kLlama3;
    } else if (
        pattern ==
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)") {
      out.pattern = SplitPattern::kQwen2;
    } else {
      refuse("the pattern of the pre-tokenizer");
    }
  }

  /// The ids that a template puts before a text.
  void read_prefix(const Json& processor, ByteLevelVocabulary& out) {
    const std::string type = text(member(processor, "type"));
    if (processor.is_null() || type == "ByteLevel") return;
    if (type == "Sequence") {
      if (in_sequence_) return refuse("a post-processor in sequences of sequences");
      in_sequence_ = true;
      for (const Json& part : member(processor, "processors")) read_prefix(part, out);
      return;
    }
    if (type != "TemplateProcessing") return refuse("the post-processor " + type);
    bool after = false;
    for (const Json& part : member(processor, "single")) {
      if (part.is_object() && part.contains("Sequence")) {
        after = true;
        continue;
      }
      const auto it = contents_.find(text(member(member(part, "SpecialToken"), "id")));
      if (it == contents_.end() || after) return refuse("a template that is not tokens, then text");
      out.ids.prefix.push_back(it->second);
    }
  }

  const Json& root_;
  std::string problem_;
  std::vector<bool> taken_;
  std::unordered_map<std::string, std::int32_t> spelled_, contents_;
  bool in_sequence_ = false;
};

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> parse_tokenizer_json(std::string_view content,
                                                         std::string_view config,
                                                         const std::string& name) {
  const Json root = Json::parse(content, nullptr, false);
  if (!root.is_object()) return Failure{LLMC_ERROR_FORMAT, name + ": is not a JSON object"};
  ByteLevelVocabulary vocabulary;
  if (const std::string problem = Reader(root).read(vocabulary); !problem.empty())
    return Failure{LLMC_ERROR_FORMAT, name + ": " + problem};
  const Json settings = Json::parse(config, nullptr, false);
  const Json& end = member(settings, "eos_token");
  const std::string stop = end.is_object() ? text(member(end, "content")) : text(end);
  for (const std::int32_t id : vocabulary.added)
    if (!stop.empty() && vocabulary.tokens[static_cast<std::size_t>(id)] == stop)
      vocabulary.ids.stop.push_back(id);
  return make_byte_level(std::move(vocabulary), name);
}

}  // namespace llmc::hosted
