#include "runtime/hosted/dry_breakers.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace llmc::hosted {

std::vector<std::string> default_dry_breakers() {
  return {"\n", ":", "\"", "*"};
}

DryBreakers dry_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                         std::size_t limit) {
  constexpr std::size_t kMaxTail = 20;
  const std::size_t ids = std::min(tokenizer.size(), limit);
  std::set<std::pair<std::int32_t, std::vector<std::int32_t>>> found;
  for (const std::string& text : strings) {
    if (text.empty()) continue;
    std::vector<std::vector<std::int32_t>> rest(
        text.size());  // index: length of the prefix that is already matched
    for (std::size_t i = 1; i < text.size(); ++i) {
      rest[i] = tokenizer.encode(std::string_view(text).substr(i), {.add_prefix = false});
      rest[i].resize(std::min(rest[i].size(), kMaxTail));
      for (const std::int32_t id : rest[i])
        if (static_cast<std::size_t>(id) >= limit) rest[i].clear();
    }
    for (std::size_t id = 0; id < ids; ++id) {
      const std::string_view word = tokenizer.bytes_of(static_cast<std::int32_t>(id));
      if (word.find(text) != word.npos) {
        found.insert({static_cast<std::int32_t>(id), {}});
        continue;
      }
      const std::size_t most = std::min(text.size() - 1, word.size());
      for (std::size_t i = 1; i <= most; ++i) {
        if (word.ends_with(std::string_view(text).substr(0, i)) && !rest[i].empty())
          found.insert({static_cast<std::int32_t>(id), rest[i]});
      }
    }
  }
  DryBreakers result;
  for (const auto& [head, tail] : found) {
    result.heads.push_back(head);
    result.tails.insert(result.tails.end(), tail.begin(), tail.end());
    result.tail_begins.push_back(static_cast<std::uint32_t>(result.tails.size()));
  }
  return result;
}

}  // namespace llmc::hosted
