#include "runtime/hosted/tokenizer/normalizer.h"

#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// A unit of a darts-clone double array.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFFu;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FFu;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}

}  // namespace

Outcome<Normalizer> Normalizer::create(NormalizerRules rules, const std::string& name) {
  Normalizer normalizer;
  const std::string_view map = rules.charsmap;
  if (!map.empty()) {
    const Failure damaged{LLMC_ERROR_FORMAT, name + ": the text replacement rules are damaged"};
    if (map.size() < 4) return damaged;
    const std::uint32_t trie_bytes = little_endian(map);
    if (trie_bytes % 4 != 0 || trie_bytes < 4 || trie_bytes > map.size() - 4) return damaged;
    for (std::size_t i = 4; i < 4 + std::size_t{trie_bytes}; i += 4)
      normalizer.trie_.push_back(little_endian(map.substr(i)));
    normalizer.replacements_ = map.substr(4 + std::size_t{trie_bytes});
    if (normalizer.replacements_.empty() || normalizer.replacements_.back() != '\0') return damaged;
  }
  normalizer.rules_ = std::move(rules);
  return normalizer;
}

Normalizer::Step Normalizer::apply_rules(std::string_view input) const {
  Step longest{{}, 0};
  if (trie_.empty()) return longest;
  // Every index is checked: the array comes from a file.
  std::size_t node = offset_of(trie_[0]);
  for (std::size_t i = 0; i < input.size(); ++i) {
    const auto byte = static_cast<unsigned char>(input[i]);
    node ^= byte;
    if (node >= trie_.size()) break;
    const std::uint32_t unit = trie_[node];
    if (label_of(unit) != byte) break;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) break;
    const std::size_t start = value_of(trie_[node]);
    if (start >= replacements_.size()) break;
    longest = {std::string_view(replacements_.data() + start), i + 1};
  }
  return longest;
}

Normalizer::Step Normalizer::next(std::string_view input, const PrefixIndex& keep) const {
  if (const PrefixIndex::Entry* symbol = keep.longest(input))
    return {symbol->first, symbol->first.size()};
  if (const Step rule = apply_rules(input); rule.consumed > 0) return rule;
  const std::size_t bytes = decode_utf8(input).bytes;
  if (bytes == 0) return {kReplacement, 1};
  return {input.substr(0, bytes), bytes};
}

std::string Normalizer::normalize(std::string_view input, const PrefixIndex& keep) const {
  const bool trim = rules_.remove_extra_whitespaces;
  while (trim && !input.empty()) {
    const Step step = next(input, keep);
    if (step.text != " ") break;
    input.remove_prefix(step.consumed);
  }
  if (input.empty()) return {};
  const std::string_view space = rules_.escape_whitespaces ? kSpaceMark : std::string_view(" ");
  std::string output;
  output.reserve(input.size() * 3 / 2 + space.size());
  if (rules_.add_dummy_prefix && !rules_.whitespace_as_suffix) output += space;
  bool after_space = trim;
  while (!input.empty()) {
    const Step step = next(input, keep);
    std::string_view text = step.text;
    while (after_space && !text.empty() && text[0] == ' ') text.remove_prefix(1);
    for (const char c : text) {
      if (c == ' ')
        output += space;
      else
        output += c;
    }
    if (!text.empty()) after_space = trim && text.back() == ' ';
    input.remove_prefix(step.consumed);
  }
  while (trim && output.ends_with(space)) output.resize(output.size() - space.size());
  if (rules_.add_dummy_prefix && rules_.whitespace_as_suffix) output += space;
  return output;
}

}  // namespace llmc::hosted
