#pragma once

#include <cfloat>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/hosted/tokenizer/prefix_index.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

/// The two algorithms of sentencepiece, on normalized text. Same results as its library, the order
/// among equals and the precision of sums included.
namespace llmc::hosted {

/// A sentencepiece vocabulary, indexed. The strings are those of `pieces`.
struct PieceTables {
  const std::vector<Piece>* pieces = nullptr;
  std::unordered_map<std::string_view, std::int32_t> ids;       // normal, user-defined, unused
  std::unordered_map<std::string_view, std::int32_t> reserved;  // unknown, control, byte
  PrefixIndex user_defined;
  PrefixIndex trie;  // the keys of `ids`; for unigram only
  std::int32_t unknown_id = -1;
  // Over normal pieces. The largest starts, as the library's, from the smallest positive float.
  float least_score = FLT_MAX;
  float most_score = FLT_MIN;

  const Piece& piece(std::int32_t id) const { return (*pieces)[static_cast<std::size_t>(id)]; }
  bool is_unused(std::int32_t id) const { return id >= 0 && piece(id).type == PieceType::kUnused; }
  /// The id of a piece; reserved ones first, unknown_id when there is none.
  std::int32_t id_of(std::string_view text) const;
};

/// A piece of the normalized text.
struct Segment {
  std::string_view text;
  std::int32_t id;
};

/// Merges characters by score, highest first.
std::vector<Segment> segment_bpe(const PieceTables& tables, std::string_view text);
/// The split with the highest sum of scores (Viterbi).
std::vector<Segment> segment_unigram(const PieceTables& tables, std::string_view text);

}  // namespace llmc::hosted
