#include "compiler/driver/control_tokens.h"

#include <cstdint>
#include <set>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace llmc::driver {

std::string spelled_control_tokens(const hosted::Tokenizer& tokenizer, const std::string& text) {
  constexpr std::size_t kNamed = 3;
  const auto plain = tokenizer.encode(text, {.add_prefix = false, .parse_special = false});
  const auto parsed = tokenizer.encode(text, {.add_prefix = false, .parse_special = true});
  if (plain == parsed) return {};
  std::string names;
  std::size_t count = 0;
  std::set<std::int32_t> seen(plain.begin(), plain.end());
  for (const std::int32_t id : parsed) {
    if (!seen.insert(id).second) continue;
    const std::string_view name = tokenizer.name_of(id);
    if (name.empty() || text.find(name) == text.npos || !tokenizer.bytes_of(id).empty()) continue;
    if (++count > kNamed) return names + ", …";
    names += (count == 1 ? "" : ", ") + printable(name, 40);
  }
  return names;
}

}  // namespace llmc::driver
