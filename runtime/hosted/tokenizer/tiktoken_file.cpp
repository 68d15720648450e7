#include <charconv>
#include <filesystem>
#include <optional>

#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/json_parts.h"

namespace llmc::hosted {
namespace {

/// A line `BASE64 RANK`.
struct Entry {
  std::string bytes;
  std::uint64_t rank = 0;
};
std::optional<Entry> entry_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto bytes = decode_base64(line.substr(0, space));
  const std::string_view number = line.substr(space + 1);
  Entry entry;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), entry.rank);
  if (!bytes || bytes->empty() || error != std::errc() || end != number.data() + number.size())
    return std::nullopt;
  entry.bytes = std::move(*bytes);
  return entry;
}

/// An encoding of tiktoken and its special tokens.
struct Known {
  std::string_view name;
  const char* settings;
};
constexpr Known kKnown[] = {
    {"r50k_base", R"({"pattern": "r50k_base", "special": {"<|endoftext|>": 50256},
                      "stop": ["<|endoftext|>"]})"},
    {"p50k_base", R"({"pattern": "p50k_base", "special": {"<|endoftext|>": 50256},
                      "stop": ["<|endoftext|>"]})"},
    {"cl100k_base", R"({"pattern": "cl100k_base", "special": {"<|endoftext|>": 100257,
        "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276}, "stop": ["<|endoftext|>"]})"},
    {"o200k_base", R"({"pattern": "o200k_base", "special": {"<|endoftext|>": 199999,
        "<|endofprompt|>": 200018}, "stop": ["<|endoftext|>"]})"},
};

std::string settings_of(std::string_view given, const std::string& name) {
  if (!given.empty()) return std::string(given);
  const std::string stem = std::filesystem::path(name).stem().string();
  for (const Known& known : kKnown)
    if (known.name == stem) return known.settings;
  return {};
}

}  // namespace

bool is_tiktoken(std::string_view content) {
  return entry_of(content.substr(0, content.find('\n'))).has_value();
}

Outcome<TokenizerSpec> read_tiktoken(std::string_view content, std::string_view settings,
                                     const std::string& name) {
  std::size_t line = 0;
  const auto failure = [&](const Problem& what) {
    const std::string where = line > 0 ? "line " + std::to_string(line) + ": " : "";
    return failure_of(name, {where + what.text, what.unsupported});
  };
  const Json said = Json::parse(settings_of(settings, name), nullptr, false);
  const std::string pattern_name = json_text(json_member(said, "pattern"));
  if (!said.is_object())
    return failure(
        "a tiktoken list does not define how text is split: give it the name of its "
        "encoding, or add a file with the same name and '.json' next to it, with "
        R"({"pattern": "cl100k_base", "special": {"<|end|>": 5}})");
  const auto pattern = pattern_named(pattern_name);
  if (!pattern) return failure(not_supported("the pattern '" + pattern_name + "'"));

  std::vector<std::string> tokens;
  const auto place = [&](std::uint64_t id, std::string bytes) {
    if (id >= kMaxTokens) return false;
    if (id >= tokens.size()) tokens.resize(static_cast<std::size_t>(id) + 1);
    std::string& there = tokens[static_cast<std::size_t>(id)];
    if (!there.empty()) return false;
    there = std::move(bytes);
    return true;
  };
  while (!content.empty()) {
    ++line;
    const std::size_t end = content.find('\n');
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (text.empty() || text == "\r") continue;
    auto entry = entry_of(text);
    if (!entry) return failure("expected a token in base64 and its rank");
    if (!place(entry->rank, std::move(entry->bytes)))
      return failure("the rank " + std::to_string(entry->rank) + " is out of range or taken");
  }
  line = 0;
  SpecialIds ids;
  const Json& specials = json_member(said, "special");
  if (!specials.is_null() && !specials.is_object()) return failure("\"special\" is not an object");
  for (const auto& [text, id] : specials.items()) {
    if (text.empty() || !id.is_number_unsigned() || !place(id.get<std::uint64_t>(), text))
      return failure("the special token '" + text + "' has no id of its own");
    ids.special.push_back(id.get<std::int32_t>());
  }
  const auto named = [&](const char* list, std::vector<std::int32_t>& out) {
    for (const Json& token : json_member(said, list)) {
      const Json& id = json_member(json_member(said, "special"), json_text(token).c_str());
      if (!id.is_number_unsigned()) return false;
      out.push_back(id.get<std::int32_t>());
    }
    return true;
  };
  if (!named("prefix", ids.prefix) || !named("stop", ids.stop))
    return failure("prefix and stop are lists of special tokens");
  return spec_of_ranks(std::move(tokens), std::move(ids), *pattern, name);
}

}  // namespace llmc::hosted
