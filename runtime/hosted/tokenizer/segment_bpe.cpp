#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/hosted/tokenizer/bpe.h"
#include "runtime/hosted/tokenizer/segment.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {

std::int32_t PieceTables::id_of(std::string_view text) const {
  if (const auto it = reserved.find(text); it != reserved.end()) return it->second;
  if (const auto it = ids.find(text); it != ids.end()) return it->second;
  return unknown_id;
}

std::vector<Segment> segment_bpe(const PieceTables& tables, std::string_view text) {
  std::vector<BpeSymbol> symbols;
  for (std::string_view rest = text; !rest.empty();) {
    BpeSymbol symbol;
    if (const PrefixIndex::Entry* whole = tables.user_defined.longest(rest)) {
      symbol.text = rest.substr(0, whole->first.size());
      symbol.frozen = true;
    } else {
      symbol.text = rest.substr(0, std::max<std::size_t>(1, decode_utf8(rest).bytes));
    }
    rest.remove_prefix(symbol.text.size());
    symbols.push_back(symbol);
  }
  link_symbols(symbols);
  // Unused pieces take part in merging; what is left of them in the end is taken apart again.
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> halves;
  std::int32_t found_id = -1;
  merge_pairs(
      symbols,
      [&](std::string_view left, std::string_view right) -> std::optional<float> {
        const auto it = tables.ids.find(union_of(left, right));
        if (it == tables.ids.end()) return std::nullopt;
        found_id = it->second;
        return tables.piece(found_id).score;
      },
      [&](std::string_view left, std::string_view right) {
        if (!tables.is_unused(found_id)) return;
        halves.insert_or_assign(union_of(left, right), std::pair(left, right));
      });
  std::vector<Segment> segments;
  std::vector<std::string_view> open;
  for (std::ptrdiff_t i = symbols.empty() ? -1 : 0; i >= 0;
       i = symbols[static_cast<std::size_t>(i)].next) {
    open.push_back(symbols[static_cast<std::size_t>(i)].text);
    while (!open.empty()) {
      const std::string_view piece = open.back();
      open.pop_back();
      const std::int32_t id = tables.id_of(piece);
      const auto parts = tables.is_unused(id) ? halves.find(piece) : halves.end();
      if (parts == halves.end()) {
        segments.push_back({piece, id});
      } else {
        open.push_back(parts->second.second);
        open.push_back(parts->second.first);
      }
    }
  }
  return segments;
}

}  // namespace llmc::hosted
