#include <algorithm>
#include <optional>
#include <unordered_map>

#include "runtime/hosted/tokenizer/config_files.h"
#include "runtime/hosted/tokenizer/json_parts.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// Returns whether the value is missing, null or an empty string.
bool absent(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

/// Normalizes texts and caches the results.
class Normalized {
 public:
  static Outcome<Normalized> create(const std::vector<SpecStep>& steps, const std::string& name) {
    TokenizerSpec spec;  // a minimal spec with these normalizers
    spec.settings.model = ModelKind::kWordPiece;
    spec.settings.unknown = 0;
    spec.tokens.resize(1);
    spec.normalizers = steps;
    Normalized out;
    auto bytes = make_tables(spec, name);
    if (!bytes) return bytes.failure();
    out.bytes_ = std::move(*bytes);
    auto tables = Tables::open(out.bytes_, name);
    if (!tables) return tables.failure();
    out.tables_.emplace(std::move(*tables));
    return out;
  }
  std::string operator()(std::string text) const {
    for (const StepRecord& step : tables_->normalizers())
      text = normalize(*tables_, step, std::move(text));
    return text;
  }

 private:
  std::vector<std::byte> bytes_;
  std::optional<Tables> tables_;
};

class JsonReader {
 public:
  explicit JsonReader(const Json& root) : root_(root) {}

  /// Reads the file. Returns what is wrong; empty on success.
  Problem read(TokenizerSpec& out) {
    Problem problem =
        read_pretokenizer(json_member(root_, "pre_tokenizer"), out.pretokenizers, byte_level_);
    if (problem.empty()) problem = read_decoder(json_member(root_, "decoder"), decoding_);
    if (problem.empty() && decoding_.byte_level != byte_level_)
      problem = not_supported("ByteLevel in only one of pre-tokenizer and decoder");
    if (problem.empty() && !byte_level_) out.normalizers.push_back(step_of(Normalizer::kValid));
    if (problem.empty())
      problem = read_normalizer(json_member(root_, "normalizer"), out.normalizers);
    if (problem.empty()) list_added();
    if (problem.empty()) problem = read_model(out);
    if (problem.empty()) problem = read_added(out);
    if (problem.empty()) finish_tokens(out);
    if (problem.empty()) problem = finish_bytes(out);
    if (problem.empty())
      problem = read_post_processor(json_member(root_, "post_processor"), out.ids);
    out.settings.leading_spaces = static_cast<std::uint32_t>(decoding_.leading);
    return problem;
  }

 private:
  /// An entry of the list of added tokens.
  struct Listed {
    std::string content;
    bool special = false;
  };

  Problem read_model(TokenizerSpec& out) {
    const Json& model = json_member(root_, "model");
    const std::string type = json_text(json_member(model, "type"));
    // Old files do not contain the type; only BPE has merges.
    if (type == "BPE" || (type.empty() && json_member(model, "merges").is_array()))
      return read_bpe(model, out);
    if (type == "Unigram") return read_unigram(model, out);
    if (type == "WordPiece") return read_word_piece(model, out);
    return not_supported("a model of type '" + type + "'");
  }

  Problem read_bpe(const Json& model, TokenizerSpec& out) {
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!absent(json_member(model, name))) return not_supported(std::string("BPE with ") + name);
    if (const Json& dropout = json_member(model, "dropout");
        !dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0.0))
      return not_supported("BPE with dropout");
    Settings& s = out.settings;
    s.model = ModelKind::kBpe;
    s.units = byte_level_ ? Units::kBytes : Units::kCharacters;
    s.whole_words = json_flag(json_member(model, "ignore_merges"));
    s.byte_fallback = json_flag(json_member(model, "byte_fallback"));
    s.fuse_unknown = json_flag(json_member(model, "fuse_unk"));
    if (byte_level_ && s.byte_fallback != 0)
      return not_supported("BPE with byte_fallback and ByteLevel");
    if (Problem problem = read_vocabulary(model, out); !problem.empty()) return problem;
    const Json& merges = json_member(model, "merges");
    if (!merges.is_array()) return "the model has no merges";
    for (const Json& merge : merges)
      if (!read_merge(merge, out))
        return problem_.empty() ? "a merge is not of two tokens that make a third" : problem_;
    return read_unknown(model, out);
  }

  Problem read_word_piece(const Json& model, TokenizerSpec& out) {
    if (byte_level_) return not_supported("WordPiece with ByteLevel");
    Settings& s = out.settings;
    s.model = ModelKind::kWordPiece;
    s.units = Units::kCharacters;
    const Json& most = json_member(model, "max_input_chars_per_word");
    const std::uint64_t longest = most.is_number_unsigned() ? most.get<std::uint64_t>() : 100;
    if (longest > kMaxWordCharacters)
      return not_supported("WordPiece of words of " + std::to_string(longest) + " characters");
    s.max_word_characters = static_cast<std::uint32_t>(longest);
    const Json& prefix = json_member(model, "continuing_subword_prefix");
    out.continuation = prefix.is_null() ? "##" : json_text(prefix);
    if (Problem problem = read_vocabulary(model, out); !problem.empty()) return problem;
    if (Problem problem = read_unknown(model, out); !problem.empty()) return problem;
    return s.unknown < 0 ? "the model has no unk_token" : "";
  }

  Problem read_unigram(const Json& model, TokenizerSpec& out) {
    if (byte_level_) return not_supported("Unigram with ByteLevel");
    Settings& s = out.settings;
    s.model = ModelKind::kUnigram;
    s.units = Units::kCharacters;
    s.fuse_unknown = 1;
    s.byte_fallback = json_flag(json_member(model, "byte_fallback"));
    const Json& vocabulary = json_member(model, "vocab");
    if (!vocabulary.is_array() || vocabulary.size() >= kMaxTokens) return "the model has no vocab";
    double least = 0;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      const Json& entry = vocabulary[i];
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        return "a token of the model is not a text and its score";
      const double score = entry[1].get<double>();
      if (!std::isfinite(score)) return "a token's score is not finite";
      least = i == 0 ? score : std::min(least, score);
      if (!place(out, Json(i), json_text(entry[0]))) return problem_;
      out.tokens[i].score = score;
    }
    s.unknown_score = least - 10.0;
    const Json& unknown = json_member(model, "unk_id");
    if (!unknown.is_number_unsigned() || unknown.get<std::uint64_t>() >= vocabulary.size())
      return not_supported("a unigram model without an unknown token");
    s.unknown = unknown.get<std::int32_t>();
    return {};
  }

  Problem read_unknown(const Json& model, TokenizerSpec& out) {
    const Json& name = json_member(model, "unk_token");
    if (absent(name)) return {};
    const auto it = spelled_.find(json_text(name));
    if (it == spelled_.end()) return "the unk_token is not in the vocab";
    out.settings.unknown = static_cast<std::int32_t>(it->second);
    return {};
  }

  Problem read_vocabulary(const Json& model, TokenizerSpec& out) {
    const Json& vocabulary = json_member(model, "vocab");
    if (!vocabulary.is_object()) return "the model has no vocab";
    for (const auto& [spelling, id] : vocabulary.items())
      if (!place(out, id, spelling)) return problem_;
    return {};
  }

  /// Stores a token of the model at its id. Returns false after a problem.
  bool place(TokenizerSpec& out, const Json& id, const std::string& spelling) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMaxTokens) {
      problem_ = "a token's id is out of range";
      return false;
    }
    const auto at = id.get<std::size_t>();
    grow(out, at);
    if (const auto added = listed_.find(at);
        added != listed_.end() && added->second.content != spelling)
      return supersede(out.settings, spelling, added->second);
    if (taken_[at]) {
      problem_ = "two tokens have id " + std::to_string(at);
      return false;
    }
    taken_[at] = true;
    out.tokens[at].name = spelling;
    out.tokens[at].in_model = true;
    spelled_.try_emplace(spelling, static_cast<std::uint32_t>(at));
    return true;
  }
  /// Removes a token of the model whose id is that of an added token, if text cannot produce the
  /// token or, because it is a control token, must not produce it. Returns false after a problem.
  bool supersede(const Settings& settings, const std::string& spelling, const Listed& added) {
    const bool merges_alone = settings.model == ModelKind::kBpe && settings.whole_words == 0;
    if (spelling.size() <= decode_utf8(spelling).bytes || !(added.special || merges_alone))
      problem_ = needs_superseded("text", spelling, added);
    superseded_.emplace(spelling, added);
    return problem_.empty();
  }
  static Problem needs_superseded(const char* what, const std::string& spelling,
                                  const Listed& added) {
    return not_supported(std::string(what) + " needs '" + spelling +
                         "', whose id the added token '" + added.content + "' has; that");
  }
  /// Indexes the added tokens by id. Ignores duplicates, which read_added() rejects.
  void list_added() {
    const Json& list = json_member(root_, "added_tokens");
    if (!list.is_array()) return;
    for (const Json& token : list) {
      const Json& id = json_member(token, "id");
      if (id.is_number_unsigned())
        listed_.try_emplace(id.get<std::uint64_t>(),
                            Listed{json_text(json_member(token, "content")),
                                   json_flag(json_member(token, "special"))});
    }
  }
  void grow(TokenizerSpec& out, std::size_t at) {
    if (at < out.tokens.size()) return;
    SpecToken nothing;
    nothing.in_model = false;
    out.tokens.resize(at + 1, nothing);
    taken_.resize(at + 1);
  }

  /// Reads a merge "left right", or ["left", "right"] in newer files.
  bool read_merge(const Json& merge, TokenizerSpec& out) {
    std::string left, right;
    if (merge.is_array() && merge.size() == 2) {
      left = json_text(merge[0]);
      right = json_text(merge[1]);
    } else {
      const std::string both = json_text(merge);
      const auto space = both.find(' ');
      if (space == std::string::npos) return false;
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    const auto l = spelled_.find(left), r = spelled_.find(right), u = spelled_.find(left + right);
    if (l == spelled_.end() || r == spelled_.end() || u == spelled_.end()) {
      for (const std::string& name : {left, right, left + right})
        if (const auto it = superseded_.find(name); it != superseded_.end())
          problem_ = needs_superseded("a merge", name, it->second);
      return false;
    }
    out.merges.push_back(
        {{l->second, r->second, u->second}, static_cast<std::uint32_t>(out.merges.size())});
    return true;
  }

  Problem read_added(TokenizerSpec& out) {
    const Json& list = json_member(root_, "added_tokens");
    if (!list.is_array()) return {};
    std::optional<Normalized> normalized;
    for (const Json& token : list) {
      SpecAdded added;
      const std::string content = json_text(json_member(token, "content"));
      const Json& id = json_member(token, "id");
      if (content.empty()) return "an added token has no content";
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMaxTokens)
        return "a token's id is out of range";
      const auto at = id.get<std::size_t>();
      grow(out, at);
      if (taken_[at] && out.tokens[at].name != content)
        return "two tokens have id " + std::to_string(at);
      if (const auto it = spelled_.find(content); it != spelled_.end() && it->second != at)
        return "the added token " + std::to_string(at) + " is token " + std::to_string(it->second) +
               " too";
      if (const auto [it, first] = added_at_.try_emplace(content, at); !first && it->second != at)
        return "the added token " + std::to_string(at) + " is token " + std::to_string(it->second) +
               " too";
      taken_[at] = true;
      out.tokens[at].name = content;
      added.id = static_cast<std::int32_t>(at);
      added_ids_.push_back(at);
      const bool special = json_flag(json_member(token, "special"));
      added.normalized = json_flag(json_member(token, "normalized"), !special);
      if (special) {
        added.flags |= kAddedSpecial;
        out.tokens[at].flags = kControlToken;
        out.ids.special.push_back(added.id);
        // Ordinary text must not produce it, because it is matched only by name; but its parts may
        // be needed.
        if (content.size() > std::max<std::size_t>(1, decode_utf8(content).bytes))
          out.tokens[at].in_model = false;
      }
      if (json_flag(json_member(token, "lstrip"))) added.flags |= kAddedLeftStrip;
      if (json_flag(json_member(token, "rstrip"))) added.flags |= kAddedRightStrip;
      if (json_flag(json_member(token, "single_word"))) added.flags |= kAddedSingleWord;
      added.text = content;
      if (added.normalized && !out.normalizers.empty()) {
        if (!normalized) {
          auto made = Normalized::create(out.normalizers, "normalizer");
          if (!made) return made.failure().message;
          normalized.emplace(std::move(*made));
        }
        added.text = (*normalized)(content);
      }
      if (!added.text.empty()) out.added.push_back(std::move(added));
    }
    return {};
  }

  /// Converts the spellings to bytes and sets the text of each token.
  void finish_tokens(TokenizerSpec& out) {
    std::vector<bool> added(out.tokens.size(), false);
    for (const std::size_t id : added_ids_) added[id] = true;
    for (std::size_t id = 0; id < out.tokens.size(); ++id) {
      SpecToken& token = out.tokens[id];
      std::string bytes;
      if (byte_level_ && !(added[id] && !token.in_model)) {
        // An added token represents its own text. If it is also in the model, it represents the
        // bytes that it spells.
        if (bytes_of_spelling(token.name, bytes))
          token.name = bytes;
        else
          token.in_model = false;
      }
      token.surface = token.name;
      for (const auto& step : decoding_.steps) token.surface = step(token.surface);
      if ((token.flags & kControlToken) != 0) token.surface.clear();
    }
  }

  Problem finish_bytes(TokenizerSpec& out) {
    if (byte_level_) return find_bytes(out);
    if (out.settings.byte_fallback == 0) return {};
    out.byte_tokens.assign(256, -1);
    static constexpr char kDigits[] = "0123456789ABCDEF";
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string name = std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + '>';
      if (const auto it = spelled_.find(name); it != spelled_.end())
        out.byte_tokens[byte] = static_cast<std::int32_t>(it->second);
    }
    return {};
  }

  const Json& root_;
  bool byte_level_ = false;
  Decoding decoding_;
  Problem problem_;
  std::unordered_map<std::uint64_t, Listed> listed_;  // added tokens by id
  // added tokens that supersede tokens of the model, by the names of the latter
  std::unordered_map<std::string, Listed> superseded_;
  std::vector<bool> taken_;
  std::vector<std::size_t> added_ids_;
  std::unordered_map<std::string, std::size_t> added_at_;
  std::unordered_map<std::string, std::uint32_t> spelled_;
};

}  // namespace

bool bytes_of_spelling(std::string_view spelling, std::string& bytes) {
  static const std::unordered_map<std::uint32_t, char> kBytes = [] {
    std::unordered_map<std::uint32_t, char> table;
    for (unsigned byte = 0; byte < 256; ++byte)
      table.emplace(spelling_of(static_cast<unsigned char>(byte)), static_cast<char>(byte));
    return table;
  }();
  bytes.clear();
  while (!spelling.empty()) {
    const Utf8Char c = decode_utf8(spelling);
    const auto it = c.bytes == 0 ? kBytes.end() : kBytes.find(c.code_point);
    if (it == kBytes.end()) return false;
    bytes += it->second;
    spelling.remove_prefix(c.bytes);
  }
  return true;
}

std::string find_bytes(TokenizerSpec& spec) {
  spec.byte_tokens.assign(256, -1);
  for (std::size_t id = spec.tokens.size(); id-- > 0;)
    if (spec.tokens[id].in_model && spec.tokens[id].name.size() == 1)
      spec.byte_tokens[static_cast<unsigned char>(spec.tokens[id].name[0])] =
          static_cast<std::int32_t>(id);
  for (unsigned byte = 0; byte < 256; ++byte)
    if (spec.byte_tokens[byte] < 0)
      return "byte " + std::to_string(byte) + " has no token: some text has no ids";
  return {};
}

Outcome<TokenizerSpec> read_tokenizer_json(std::string_view content, const SiblingFiles& siblings,
                                           const std::string& name) {
  Json root = Json::parse(content, nullptr, false);
  if (!root.is_object())
    return failure_of(
        name, root.is_discarded() ? "is not valid JSON, or cut short" : "is not a JSON object");
  TokenizerSpec spec;
  TokenizerConfig config;
  Problem problem = read_config_files(siblings, config);
  if (problem.empty()) problem = add_config_tokens(config, root);
  if (problem.empty()) problem = JsonReader(root).read(spec);
  if (problem.empty()) problem = set_ends(config, spec);
  if (!problem.empty()) return failure_of(name, problem);
  return spec;
}

}  // namespace llmc::hosted
