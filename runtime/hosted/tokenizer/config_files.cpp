#include "runtime/hosted/tokenizer/config_files.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace llmc::hosted {
namespace {

using Token = TokenizerConfig::Token;

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kSpecial = "special_tokens_map.json";
/// Maximum number of unused ids between the end of a vocabulary and a token that is added to it.
constexpr std::size_t kMaxGap = std::size_t{1} << 16;

/// Parses the object in a file's text. Sets `object` to an empty one if there is no file.
Problem read_object(const std::string& text, const char* file, Json& object) {
  object = Json::object();
  if (text.empty()) return {};
  object = Json::parse(text, nullptr, false);
  if (object.is_object()) return {};
  return std::string(file) + " is not a JSON object";
}

/// Returns the spelling of a token, which is a string or an object with a "content".
std::string spelling(const Json& token) {
  return token.is_object() ? json_text(json_member(token, "content")) : json_text(token);
}

std::string in_quotes(const std::string& text) {
  return "'" + text + "'";
}

class ConfigReader {
 public:
  Problem read(const SiblingFiles& files, TokenizerConfig& out) {
    Json added;
    if (Problem p = read_object(files.config, kConfig, config_); !p.empty()) return p;
    if (Problem p = read_object(files.special, kSpecial, special_); !p.empty()) return p;
    if (Problem p = read_object(files.added, kAdded, added); !p.empty()) return p;
    const Json& decoder = json_member(config_, "added_tokens_decoder");
    lists_tokens_ = !decoder.is_null();
    out.bos = named("bos_token");
    out.eos = named("eos_token");
    for (const auto& [key, value] :
         {std::pair("add_bos_token", &out.add_bos), std::pair("add_eos_token", &out.add_eos)}) {
      const Json& flag = json_member(config_, key);
      if (flag.is_null()) continue;
      if (!flag.is_boolean())
        return std::string(kConfig) + ": " + in_quotes(key) + " is not a boolean";
      *value = flag.get<bool>();
    }
    name_specials();
    Problem problem = lists_tokens_ ? read_decoder(decoder) : read_encoder(added);
    if (!problem.empty()) return problem;
    for (auto& [id, token] : tokens_) out.added.push_back(std::move(token));
    return {};
  }

 private:
  /// Returns the name of the token with the role `key`. A config without a list of tokens has the
  /// old format, in which special_tokens_map.json takes precedence.
  std::string named(const char* key) const {
    const std::string text = spelling(json_member(lists_tokens_ ? config_ : special_, key));
    return text.empty() ? spelling(json_member(lists_tokens_ ? special_ : config_, key)) : text;
  }

  /// Makes tokens with a role control tokens, even if a list says otherwise.
  void name_specials() {
    for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                            "cls_token", "mask_token"})
      specials_.insert(named(key));
    for (const Json* file : {&config_, &special_})
      for (const Json& token : json_member(*file, "additional_special_tokens"))
        specials_.insert(spelling(token));
  }

  /// Reads the format {"32000": {"content": "<|im_start|>", "special": true, …}, …}.
  Problem read_decoder(const Json& decoder) {
    const std::string where = std::string(kConfig) + ": added_tokens_decoder";
    if (!decoder.is_object()) return where + " is not an object";
    for (const auto& [key, value] : decoder.items()) {
      Token token;
      std::uint64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc{} || end != key.data() + key.size() || id >= kMaxTokens)
        return where + " has the id " + in_quotes(key);
      token.id = static_cast<std::int32_t>(id);
      token.text = json_text(json_member(value, "content"));
      if (token.text.empty()) return where + ": token " + key + " has no content";
      token.special = json_flag(json_member(value, "special"));
      token.left_strip = json_flag(json_member(value, "lstrip"));
      token.right_strip = json_flag(json_member(value, "rstrip"));
      token.single_word = json_flag(json_member(value, "single_word"));
      token.normalized = json_flag(json_member(value, "normalized"), !token.special);
      token.special |= specials_.contains(token.text);
      token.file = kConfig;
      if (Problem p = take(std::move(token)); !p.empty()) return p;
    }
    return {};
  }

  /// Reads the format {"<|im_start|>": 32000, …}.
  Problem read_encoder(const Json& encoder) {
    for (const auto& [text, id] : encoder.items()) {
      if (text.empty() || !id.is_number_unsigned() || id.get<std::uint64_t>() >= kMaxTokens)
        return std::string(kAdded) + ": the token " + in_quotes(text) + " has no id";
      Token token;
      token.text = text;
      token.id = id.get<std::int32_t>();
      token.special = specials_.contains(text);
      token.normalized = !token.special;
      token.file = kAdded;
      if (Problem p = take(std::move(token)); !p.empty()) return p;
    }
    return {};
  }

  Problem take(Token token) {
    const auto id = token.id;
    const std::string where = token.file, text = token.text;
    if (!texts_.insert(text).second) return where + ": two tokens are " + in_quotes(text);
    if (!tokens_.try_emplace(id, std::move(token)).second)
      return where + ": two tokens have id " + std::to_string(id);
    return {};
  }

  Json config_, special_;
  bool lists_tokens_ = false;  // whether the config has an added_tokens_decoder
  std::unordered_set<std::string> specials_, texts_;
  std::map<std::int32_t, Token> tokens_;
};

Problem contradiction(const Token& token, const std::string& instead) {
  return std::string(token.file) + " says that token " + std::to_string(token.id) + " is " +
         in_quotes(token.text) + ", but " + instead;
}

Problem too_far(const Token& token, std::size_t tokens) {
  return contradiction(token, "here there are " + std::to_string(tokens) + " tokens");
}

/// Returns the upper bound of the ids in a tokenizer.json. Ignores ids that its reader rejects.
std::size_t ids_of(const Json& list, const Json& vocabulary) {
  std::size_t end = vocabulary.is_array() ? vocabulary.size() : 0;
  const auto count = [&](const Json& id) {
    if (id.is_number_unsigned() && id.get<std::uint64_t>() < kMaxTokens)
      end = std::max(end, id.get<std::size_t>() + 1);
  };
  if (vocabulary.is_object())
    for (const Json& id : vocabulary) count(id);
  for (const Json& token : list) count(json_member(token, "id"));
  return end;
}

/// Returns the token with this spelling, preferably an added one; -1: none.
std::int32_t id_of(const TokenizerSpec& spec, const std::string& text) {
  if (text.empty()) return -1;
  for (const SpecAdded& added : spec.added)
    if (added.text == text) return added.id;
  const auto it = std::ranges::find(spec.tokens, text, &SpecToken::name);
  return it == spec.tokens.end() ? -1 : static_cast<std::int32_t>(it - spec.tokens.begin());
}

std::uint32_t flags_of(const Token& token) {
  return (token.special ? kAddedSpecial : 0u) | (token.left_strip ? kAddedLeftStrip : 0u) |
         (token.right_strip ? kAddedRightStrip : 0u) | (token.single_word ? kAddedSingleWord : 0u);
}

}  // namespace

Problem read_config_files(const SiblingFiles& files, TokenizerConfig& config) {
  return ConfigReader().read(files, config);
}

Problem add_config_tokens(const TokenizerConfig& config, Json& tokenizer) {
  if (config.added.empty()) return {};
  Json& list = tokenizer["added_tokens"];
  if (!list.is_array()) list = Json::array();
  std::unordered_map<std::string, std::uint64_t> ids;
  std::unordered_map<std::uint64_t, std::string> texts;
  for (const Json& token : list) {
    const Json& id = json_member(token, "id");
    if (!id.is_number_unsigned()) continue;  // the reader of the file reports this
    ids.try_emplace(json_text(json_member(token, "content")), id.get<std::uint64_t>());
    texts.try_emplace(id.get<std::uint64_t>(), json_text(json_member(token, "content")));
  }
  const Json& vocabulary = json_member(json_member(tokenizer, "model"), "vocab");
  const std::size_t trained = ids_of(list, vocabulary);
  for (const Token& token : config.added) {
    const auto id = static_cast<std::uint64_t>(token.id);
    const auto same_text = ids.find(token.text);
    const auto same_id = texts.find(id);
    if (same_text != ids.end() && same_text->second == id) continue;
    if (same_text != ids.end())
      return contradiction(token, "here that is token " + std::to_string(same_text->second));
    if (same_id != texts.end())
      return contradiction(token, "here that one is " + in_quotes(same_id->second));
    if (const Json& known = json_member(vocabulary, token.text.c_str());
        known.is_number_unsigned() && known.get<std::uint64_t>() != id)
      return contradiction(token, "here that is token " + known.dump());
    if (id >= trained + kMaxGap) return too_far(token, trained);
    list.push_back({{"id", id},
                    {"content", token.text},
                    {"special", token.special},
                    {"lstrip", token.left_strip},
                    {"rstrip", token.right_strip},
                    {"single_word", token.single_word},
                    {"normalized", token.normalized}});
  }
  return {};
}

Problem add_config_tokens(const TokenizerConfig& config, PieceVocabulary& vocabulary) {
  if (config.added.empty()) return {};
  auto& pieces = vocabulary.pieces;
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < pieces.size(); ++i) known.try_emplace(pieces[i].text, i);
  std::vector<std::int32_t>& special = vocabulary.ids.special;
  std::unordered_set<std::int32_t> specials(special.begin(), special.end());
  const std::size_t trained = pieces.size();
  for (const Token& token : config.added) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= trained + kMaxGap) return too_far(token, trained);
    const auto it = known.find(token.text);
    if (it != known.end() && it->second != id)
      return contradiction(token, "here that is token " + std::to_string(it->second));
    // Ids that no file defines are control tokens.
    if (id >= pieces.size()) pieces.resize(id + 1, Piece{{}, 0.0f, PieceType::kControl});
    Piece& piece = pieces[id];
    const bool same = it != known.end();
    const bool spare = id >= trained || piece.type == PieceType::kControl ||
                       piece.type == PieceType::kUserDefined || piece.type == PieceType::kUnused;
    if (!same && !spare) return contradiction(token, "here that one is " + in_quotes(piece.text));
    // An equal ordinary token stays in the model, and is matched before all others.
    if (same && (!spare || (piece.type == PieceType::kUserDefined && !token.special))) continue;
    piece.text = token.text;
    piece.type = PieceType::kControl;  // so that the model never produces it
    if (token.special && specials.insert(token.id).second) special.push_back(token.id);
  }
  return {};
}

void mark_config_tokens(const TokenizerConfig& config, TokenizerSpec& spec) {
  std::unordered_map<std::int32_t, std::size_t> listed;
  for (std::size_t i = 0; i < spec.added.size(); ++i) listed.try_emplace(spec.added[i].id, i);
  std::unordered_set<std::int32_t> plain;  // added tokens that are not special
  for (const Token& token : config.added) {
    SpecToken& known = spec.tokens[static_cast<std::size_t>(token.id)];
    if (const auto it = listed.find(token.id); it != listed.end()) {
      spec.added[it->second].flags = flags_of(token);
    } else {
      spec.added.push_back({token.text, token.id, flags_of(token), false});
    }
    if (token.special) continue;
    plain.insert(token.id);
    if ((known.flags & kControlToken) == 0) continue;
    known.surface = token.text;
    known.flags = 0;
  }
  std::erase_if(spec.ids.special, [&](std::int32_t id) { return plain.contains(id); });
}

Problem set_ends(const TokenizerConfig& config, TokenizerSpec& spec) {
  SpecialIds& ids = spec.ids;
  const std::int32_t bos = id_of(spec, config.bos);
  std::int32_t eos = id_of(spec, config.eos);
  const auto missing = [](const char* flag, const char* token, const std::string& text) -> Problem {
    return std::string(kConfig) + ": " + flag + " asks for the " + token + ", and " +
           (text.empty() ? "none is named" : "there is no token " + in_quotes(text));
  };
  if (eos >= 0 && std::ranges::find(ids.stop, eos) == ids.stop.end()) ids.stop.push_back(eos);
  if (config.add_bos == true) {
    if (bos < 0 && (!config.bos.empty() || ids.prefix.empty()))
      return missing("add_bos_token", "bos_token", config.bos);
    if (bos >= 0 && (ids.prefix.empty() || ids.prefix.front() != bos))
      ids.prefix.insert(ids.prefix.begin(), bos);
  } else if (config.add_bos == false && !ids.prefix.empty()) {
    // If the config does not name the BOS token, it is the first prefix id of the sentencepiece
    // vocabulary.
    const bool only = config.bos.empty() && spec.settings.units == Units::kSentencePiece;
    if (only || ids.prefix.front() == bos) ids.prefix.erase(ids.prefix.begin());
  }
  if (config.eos.empty() && !ids.stop.empty()) eos = ids.stop.front();
  if (config.add_eos == true) {
    if (eos < 0) return missing("add_eos_token", "eos_token", config.eos);
    if (ids.suffix.empty() || ids.suffix.back() != eos) ids.suffix.push_back(eos);
  } else if (config.add_eos == false && !ids.suffix.empty() && ids.suffix.back() == eos) {
    ids.suffix.pop_back();
  }
  return {};
}

}  // namespace llmc::hosted
