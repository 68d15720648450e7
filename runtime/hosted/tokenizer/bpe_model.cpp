#include <algorithm>

#include "runtime/hosted/tokenizer/models.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// Number of symbols below which scanning all pairs is faster than a heap.
constexpr std::size_t kFew = 32;

}  // namespace

Emitter::Emitter(const Tables& tables, bool bytes, bool fuse, Ids& ids)
    : tables_(tables), bytes_(bytes), fuse_(fuse), ids_(ids) {}

void Emitter::unknown(std::string_view text) {
  const bool spelled = bytes_ && std::all_of(text.begin(), text.end(), [&](char c) {
                         return tables_.byte_token(static_cast<unsigned char>(c)) >= 0;
                       });
  if (spelled) {
    for (const char c : text) token(tables_.byte_token(static_cast<unsigned char>(c)));
    return;
  }
  const std::int32_t id = tables_.settings().unknown;
  if (id >= 0 && !(fuse_ && after_unknown_)) ids_.push_back(id);
  after_unknown_ = true;
}

BpeModel::BpeModel(const Tables& tables) : tables_(tables) {
  for (std::size_t i = 0; i < tables.extras().size(); ++i)
    extras_.try_emplace(tables.text(tables.extras()[i].name),
                        static_cast<std::uint32_t>(tables.tokens().size() + i));
  unused_ = tables.has_unused();
}

void BpeModel::add(std::uint32_t node, std::size_t at, std::size_t bytes, bool whole) {
  Symbol symbol;
  symbol.node = node;
  symbol.start = static_cast<std::uint32_t>(at);
  symbol.bytes = static_cast<std::uint32_t>(bytes);
  symbol.whole = whole;
  symbols_.push_back(symbol);
}

std::uint32_t BpeModel::character(std::string_view text) const {
  const std::uint32_t id = tables_.find(text);
  if (id != kNoNode || extras_.empty()) return id;
  const auto it = extras_.find(text);
  return it == extras_.end() ? kNoNode : it->second;
}

void BpeModel::start(std::string_view word) {
  symbols_.clear();
  switch (tables_.settings().units) {
    case Units::kBytes:
      for (std::size_t i = 0; i < word.size(); ++i)
        add(static_cast<std::uint32_t>(tables_.byte_token(static_cast<unsigned char>(word[i]))), i,
            1);
      break;
    case Units::kCharacters:
      start_characters(word);
      break;
    case Units::kSentencePiece:
      start_sentencepiece(word);
      break;
  }
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    symbols_[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols_[i].next = i + 1 < symbols_.size() ? static_cast<std::int32_t>(i) + 1 : -1;
  }
}

/// Does the same as Hugging Face's BPE::merge_word, with the same order of unknown and byte tokens.
void BpeModel::start_characters(std::string_view word) {
  const Settings& s = tables_.settings();
  std::size_t unknown_at = 0, unknown_bytes = 0;
  const auto flush = [&] {
    if (unknown_bytes > 0) add(static_cast<std::uint32_t>(s.unknown), unknown_at, unknown_bytes);
    unknown_bytes = 0;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = std::max<std::size_t>(1, decode_utf8(word.substr(at)).bytes);
    const std::string_view text = word.substr(at, bytes);
    const std::uint32_t id = tables_.find(text);
    if (id != kNoNode) {
      flush();
      add(id, at, bytes);
    } else if (s.byte_fallback != 0 && std::all_of(text.begin(), text.end(), [&](char c) {
                 return tables_.byte_token(static_cast<unsigned char>(c)) >= 0;
               })) {
      for (std::size_t i = 0; i < bytes; ++i)
        add(static_cast<std::uint32_t>(tables_.byte_token(static_cast<unsigned char>(text[i]))),
            at + i, 1);
    } else if (s.unknown >= 0) {
      if (s.fuse_unknown == 0) flush();
      if (unknown_bytes == 0) unknown_at = at;
      unknown_bytes += bytes;
    }
    at += bytes;
  }
  flush();
}

void BpeModel::start_sentencepiece(std::string_view word) {
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view rest = word.substr(at);
    if (const IndexRecord* whole = tables_.symbols().longest(rest)) {
      add(whole->value, at, whole->text.bytes, true);
    } else {
      const std::size_t bytes = std::max<std::size_t>(1, decode_utf8(rest).bytes);
      add(character(rest.substr(0, bytes)), at, bytes);
    }
    at += symbols_.back().bytes;
  }
}

void BpeModel::look(std::int32_t at) {
  if (at < 0) return;
  Symbol& left = symbols_[static_cast<std::size_t>(at)];
  left.result = kNoNode;
  if (left.next < 0) return;
  const Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
  if (left.node == kNoNode || right.node == kNoNode || left.whole || right.whole) return;
  const MergeRecord* merge = tables_.merge(left.node, right.node);
  if (merge == nullptr) return;
  left.rank = merge->rank;
  left.result = merge->result;
  if (unused_ && (tables_.node(merge->result).flags & kUnusedToken) != 0)
    halves_.insert_or_assign(merge->result, std::pair(left.node, right.node));
}

/// Merges the symbol with the next one, and looks up the merges with its new neighbours.
void BpeModel::join(std::int32_t at) {
  Symbol& left = symbols_[static_cast<std::size_t>(at)];
  Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
  left.node = left.result;
  left.bytes += right.bytes;
  left.next = right.next;
  right.bytes = 0;
  if (left.next >= 0) symbols_[static_cast<std::size_t>(left.next)].previous = at;
  look(left.previous);
  look(at);
}

void BpeModel::merge_few() {
  while (true) {
    std::int32_t best = -1;
    for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next) {
      const Symbol& s = symbols_[static_cast<std::size_t>(i)];
      if (s.result == kNoNode) continue;
      if (best < 0 || s.rank < symbols_[static_cast<std::size_t>(best)].rank) best = i;
    }
    if (best < 0) return;
    join(best);
  }
}

void BpeModel::merge_many() {
  const auto push = [&](std::int32_t at) {
    if (at < 0) return;
    const Symbol& s = symbols_[static_cast<std::size_t>(at)];
    if (s.result == kNoNode) return;
    heap_.push_back({s.rank, at, s.result});
    std::push_heap(heap_.begin(), heap_.end());
  };
  heap_.clear();
  for (std::size_t i = 0; i < symbols_.size(); ++i) push(static_cast<std::int32_t>(i));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate top = heap_.back();
    heap_.pop_back();
    const Symbol& s = symbols_[static_cast<std::size_t>(top.at)];
    // One of the two symbols has been merged with its other neighbour.
    if (s.bytes == 0 || s.result != top.result) continue;
    join(top.at);
    push(s.previous);
    push(top.at);
  }
}

void BpeModel::encode(std::string_view word, Ids& ids) {
  if (word.empty()) return;
  const Settings& s = tables_.settings();
  if (s.whole_words != 0) {
    if (const std::uint32_t id = tables_.find(word); id != kNoNode) {
      ids.push_back(static_cast<std::int32_t>(id));
      return;
    }
  }
  start(word);
  if (symbols_.empty()) return;
  halves_.clear();
  for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) look(static_cast<std::int32_t>(i));
  if (symbols_.size() <= kFew)
    merge_few();
  else
    merge_many();
  if (s.units == Units::kSentencePiece) return emit_sentencepiece(word, ids);
  for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
    ids.push_back(static_cast<std::int32_t>(symbols_[static_cast<std::size_t>(i)].node));
}

/// Appends the ids. Splits unused tokens into their parts again.
void BpeModel::emit_sentencepiece(std::string_view word, Ids& ids) {
  Emitter emitter(tables_, tables_.settings().byte_fallback != 0, true, ids);
  std::vector<std::uint32_t> open;
  for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next) {
    const Symbol& symbol = symbols_[static_cast<std::size_t>(i)];
    if (symbol.node == kNoNode) {
      emitter.unknown(word.substr(symbol.start, symbol.bytes));
      continue;
    }
    open.push_back(symbol.node);
    while (!open.empty()) {
      const TokenRecord& node = tables_.node(open.back());
      const auto halves = (node.flags & kUnusedToken) != 0 && !symbol.whole
                              ? halves_.find(open.back())
                              : halves_.end();
      open.pop_back();
      if (halves != halves_.end()) {
        open.push_back(halves->second.second);
        open.push_back(halves->second.first);
      } else if (node.reads_as < 0 || node.reads_as == tables_.settings().unknown) {
        emitter.unknown(tables_.text(node.name));
      } else {
        emitter.token(node.reads_as);
      }
    }
  }
}

}  // namespace llmc::hosted
