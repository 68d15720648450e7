#include "compiler/driver/control_tokens.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace llmc::driver {

std::string spelled_control_tokens(const hosted::Tokenizer& tokenizer, const std::string& text,
                                   std::span<const std::int32_t> ids) {
  constexpr std::size_t kNamed = 3;
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < tokenizer.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::string_view name = tokenizer.name_of(id);
    if (name.empty() || !tokenizer.bytes_of(id).empty() || text.find(name) == text.npos) continue;
    if (std::ranges::find(ids, id) != ids.end()) continue;  // the tokenizer always parses this name
    if (++count > kNamed) return names + ", …";
    names += (count == 1 ? "" : ", ") + printable(name, 40);
  }
  return names;
}

}  // namespace llmc::driver
