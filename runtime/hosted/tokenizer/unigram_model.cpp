#include <algorithm>

#include "runtime/hosted/tokenizer/models.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {

void UnigramModel::encode(std::string_view word, Ids& ids) {
  const Settings& s = tables_.settings();
  const bool single = s.single_precision != 0;
  // Like sentencepiece, store sums as float, but compare them before rounding.
  const auto rounded = [&](double score) {
    return single ? double{static_cast<float>(score)} : score;
  };
  best_.assign(word.size() + 1, {});
  for (std::size_t start = 0; start < word.size();) {
    const std::string_view rest = word.substr(start);
    const std::size_t character = std::max<std::size_t>(1, decode_utf8(rest).bytes);
    const double so_far = best_[start].score;
    bool covered = false;  // whether a piece equals this character
    TextIndex::Cursor cursor(tables_.pieces());
    for (std::size_t length = 1; length <= rest.size() && cursor.advance(rest[length - 1]);
         ++length) {
      const IndexRecord* match = cursor.match();
      if (match == nullptr) continue;
      // A user-defined symbol always has a higher score than normal pieces.
      const double own =
          (match->flags & kSymbolToken) != 0
              ? double{static_cast<float>(length) * static_cast<float>(s.symbol_score)} - 0.1
              : tables_.scores()[match->value];
      const double score = own + so_far;
      BestPath& next = best_[start + length];
      if (next.from < 0 || score > next.score)
        next = {static_cast<std::int32_t>(match->value), rounded(score),
                static_cast<std::ptrdiff_t>(start)};
      covered |= length == character;
    }
    if (!covered) {
      const double score = rounded(s.unknown_score + so_far);
      BestPath& next = best_[start + character];
      if (next.from < 0 || score > next.score)
        next = {s.unknown, score, static_cast<std::ptrdiff_t>(start)};
    }
    start += character;
  }
  path_.clear();
  for (std::size_t end = word.size(); end > 0;) {
    const BestPath& here = best_[end];
    const auto start = static_cast<std::size_t>(here.from);
    path_.emplace_back(word.substr(start, end - start), here.id);
    end = start;
  }
  Emitter emitter(tables_, s.byte_fallback != 0, s.fuse_unknown != 0, ids);
  for (auto it = path_.rbegin(); it != path_.rend(); ++it) {
    if (it->second < 0 || it->second == s.unknown)
      emitter.unknown(it->first);
    else
      emitter.token(it->second);
  }
}

void WordPieceModel::encode(std::string_view word, Ids& ids) {
  const Settings& s = tables_.settings();
  const std::size_t before = ids.size();
  const auto unknown = [&] {
    ids.resize(before);
    ids.push_back(s.unknown);
  };
  std::size_t characters = 0;
  for (std::size_t at = 0; at < word.size() && characters <= s.max_word_characters; ++characters)
    at += std::max<std::size_t>(1, decode_utf8(word.substr(at)).bytes);
  if (characters > s.max_word_characters) return unknown();
  const std::string_view continuation = tables_.text(s.continuation);
  for (std::size_t start = 0; start < word.size();) {
    const std::string_view prefix = start == 0 ? std::string_view() : continuation;
    std::uint32_t found = kNoNode;
    std::size_t end = word.size();
    if (s.longest_token >= prefix.size())
      end = std::min<std::size_t>(end, start + s.longest_token - prefix.size());
    for (; end > start && found == kNoNode; --end) {
      if (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) continue;
      piece_.assign(prefix);
      piece_ += word.substr(start, end - start);
      found = tables_.find(piece_);
      if (found != kNoNode) break;
    }
    if (found == kNoNode) return unknown();
    ids.push_back(static_cast<std::int32_t>(found));
    start = end;
  }
}

}  // namespace llmc::hosted
