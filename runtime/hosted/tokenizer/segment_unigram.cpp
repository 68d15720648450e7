#include <algorithm>

#include "runtime/hosted/tokenizer/segment.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// The best way to reach a position of the text.
struct Arrival {
  std::int32_t id = -1;
  float score = 0.0f;
  std::ptrdiff_t from = -1;
};

}  // namespace

std::vector<Segment> segment_unigram(const PieceTables& tables, std::string_view text) {
  constexpr float kUnknownPenalty = 10.0f;
  const float unknown_score = tables.least_score - kUnknownPenalty;
  std::vector<Arrival> best(text.size() + 1);
  for (std::size_t start = 0; start < text.size();) {
    const std::string_view rest = text.substr(start);
    const std::size_t character = std::max<std::size_t>(1, decode_utf8(rest).bytes);
    const float so_far = best[start].score;
    bool covered = false;  // some piece is exactly this character
    PrefixIndex::Cursor cursor(tables.trie);
    for (std::size_t length = 1; length <= rest.size() && cursor.advance(rest[length - 1]);
         ++length) {
      const PrefixIndex::Entry* match = cursor.match();
      if (match == nullptr || tables.is_unused(match->second)) continue;
      const Piece& piece = tables.piece(match->second);
      // A user-defined symbol wins against whatever normal pieces could make of it.
      const double own = piece.type == PieceType::kUserDefined
                             ? static_cast<float>(length) * tables.most_score - 0.1
                             : double{piece.score};
      const double score = own + double{so_far};
      Arrival& there = best[start + length];
      if (there.from < 0 || score > double{there.score}) {
        there = {match->second, static_cast<float>(score), static_cast<std::ptrdiff_t>(start)};
      }
      covered |= length == character;
    }
    if (!covered) {
      const float score = unknown_score + so_far;
      Arrival& there = best[start + character];
      if (there.from < 0 || score > there.score)
        there = {tables.unknown_id, score, static_cast<std::ptrdiff_t>(start)};
    }
    start += character;
  }
  std::vector<Segment> segments;
  for (std::size_t end = text.size(); end > 0;) {
    const auto start = static_cast<std::size_t>(best[end].from);
    segments.push_back({text.substr(start, end - start), best[end].id});
    end = start;
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

}  // namespace llmc::hosted
