#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "runtime/hosted/tokenizer/unicode.h"
#include "runtime/hosted/tokenizer/unicode_data.h"
#include "runtime/hosted/tokenizer/utf8.h"

// Implements the algorithms of the Unicode standard, sections 3.11 and 3.12, and of UAX 15.
namespace llmc::hosted {
namespace {

// Hangul syllables are composed arithmetically.
constexpr std::uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr std::uint32_t kLCount = 19, kVCount = 21, kTCount = 28, kNCount = kVCount * kTCount;
constexpr std::uint32_t kSCount = kLCount * kNCount;

/// Indexes of kMappings.
struct Mappings {
  std::unordered_map<std::uint32_t, std::uint32_t> at;       // code point -> index in kMappings
  std::unordered_map<std::uint64_t, std::uint32_t> pair_of;  // first << 32 | second -> composed

  Mappings() {
    for (std::uint32_t i = 0; i < std::size(kMappings);) {
      const std::uint32_t head = kMappings[i], c = head & 0x1FFFFF;
      at.emplace(c, i);
      if ((head >> 27 & 1) != 0)
        pair_of.emplace(std::uint64_t{kMappings[i + 1]} << 32 | kMappings[i + 2], c);
      i += 1 + (head >> 21 & 31);
    }
  }
};

const Mappings& mappings() {
  static const Mappings kIndex;
  return kIndex;
}

struct OrderedCharacter {
  std::uint32_t code_point;
  std::uint8_t combining;
  std::uint32_t place = 0;  // original position, used while marks are sorted
};

void decompose(std::uint32_t c, bool compatible, std::vector<OrderedCharacter>& out) {
  if (c < 0xA0) {
    out.push_back({c, 0});
    return;
  }
  if (c - kSBase < kSCount) {
    const std::uint32_t s = c - kSBase, t = s % kTCount;
    out.push_back({kLBase + s / kNCount, 0});
    out.push_back({kVBase + s % kNCount / kTCount, 0});
    if (t != 0) out.push_back({kTBase + t, 0});
    return;
  }
  const auto& index = mappings().at;
  if (const auto it = index.find(c); it != index.end()) {
    const std::uint32_t* entry = kMappings + it->second;
    if (compatible || (*entry >> 26 & 1) == 0) {
      const std::uint32_t length = *entry >> 21 & 31;
      // Only a few levels deep, because the tables have no cycles.
      for (std::uint32_t i = 1; i <= length; ++i) decompose(entry[i], compatible, out);
      return;
    }
  }
  out.push_back({c, combining_class(c)});
}

/// Returns the character to which the two are composed; 0: none.
std::uint32_t composed(std::uint32_t first, std::uint32_t second) {
  if (first - kLBase < kLCount && second - kVBase < kVCount)
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 && second > kTBase &&
      second < kTBase + kTCount)
    return first + (second - kTBase);
  const auto& pairs = mappings().pair_of;
  const auto it = pairs.find(std::uint64_t{first} << 32 | second);
  return it == pairs.end() ? 0 : it->second;
}

void compose(std::vector<OrderedCharacter>& run) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::size_t starter = kNone, kept = 0;
  int last = -1;  // combining class of the last mark that was kept after the starter; -1: none
  for (const OrderedCharacter c : run) {
    if (starter != kNone && last < static_cast<int>(c.combining)) {
      const std::uint32_t both = composed(run[starter].code_point, c.code_point);
      if (both != 0) {
        run[starter].code_point = both;
        continue;
      }
    }
    if (c.combining == 0) {
      starter = kept;
      last = -1;
    } else {
      last = c.combining;
    }
    run[kept++] = c;
  }
  run.resize(kept);
}

void order(std::vector<OrderedCharacter>& run) {
  const auto starts = [](const OrderedCharacter& c) { return c.combining == 0; };
  for (auto begin = run.begin(); begin != run.end();) {
    begin = std::find_if_not(begin, run.end(), starts);
    const auto end = std::find_if(begin, run.end(), starts);
    for (auto it = begin; it != end; ++it) it->place = static_cast<std::uint32_t>(it - begin);
    std::sort(begin, end, [](const OrderedCharacter& a, const OrderedCharacter& b) {
      return a.combining < b.combining || (a.combining == b.combining && a.place < b.place);
    });
    begin = end;
  }
}

}  // namespace

std::string normalize_unicode(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  std::string out;
  out.reserve(text.size());
  std::vector<OrderedCharacter> run;
  const auto flush = [&] {
    order(run);
    if (composes) compose(run);
    for (const OrderedCharacter& c : run) append_utf8(c.code_point, out);
    run.clear();
  };
  while (!text.empty()) {
    // ASCII characters are already normalized. Each begins a new segment, so only the last one can
    // combine with the next character.
    std::size_t plain = 0;
    while (plain < text.size() && static_cast<unsigned char>(text[plain]) < 0x80) ++plain;
    if (plain > 0) flush();
    if (plain > 1) out.append(text, 0, plain - 1);
    if (plain > 0) run.push_back({static_cast<unsigned char>(text[plain - 1]), 0});
    text.remove_prefix(plain);
    if (text.empty()) break;
    const Utf8Char c = decode_utf8(text);
    if (c.bytes == 0) {
      flush();
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    decompose(c.code_point, compatible, run);
    text.remove_prefix(c.bytes);
  }
  flush();
  return out;
}

}  // namespace llmc::hosted
