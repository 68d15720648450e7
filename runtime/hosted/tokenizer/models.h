#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/hosted/tokenizer/tables.h"

/// The models, which convert a word to ids. An object encodes many words and reuses its memory.
namespace llmc::hosted {

using Ids = std::vector<std::int32_t>;

/// Appends ids. For text without a token, appends byte tokens if `bytes` is set and they exist,
/// else the unknown token, if any. With `fuse`, several consecutive unknown tokens become one.
class Emitter {
 public:
  Emitter(const Tables& tables, bool bytes, bool fuse, Ids& ids);
  void token(std::int32_t id) {
    ids_.push_back(id);
    after_unknown_ = false;
  }
  void unknown(std::string_view text);

 private:
  const Tables& tables_;
  bool bytes_, fuse_;
  bool after_unknown_ = false;
  Ids& ids_;
};

/// Byte-pair encoding: repeatedly merges the two neighbours whose pair has the lowest rank, the
/// leftmost if several are equal, until no pair has a rank. O(n log n) for n characters.
class BpeModel {
 public:
  explicit BpeModel(const Tables& tables);
  void encode(std::string_view word, Ids& ids);

 private:
  struct Symbol {
    std::uint32_t node = kNoNode;
    /// Position in the word; bytes is 0 after it was merged into its neighbour.
    std::uint32_t start = 0, bytes = 0;
    std::int32_t previous = -1, next = -1;  // index of a neighbour; -1: none
    /// Rank and result of merging with the next symbol; kNoNode: they do not merge.
    std::uint32_t rank = 0, result = kNoNode;
    bool whole = false;  // a user-defined symbol, which is never merged
  };
  void start(std::string_view word);
  void start_characters(std::string_view word);
  void start_sentencepiece(std::string_view word);
  void add(std::uint32_t node, std::size_t at, std::size_t bytes, bool whole = false);
  std::uint32_t character(std::string_view text) const;
  /// Sets the rank and result of merging the symbol with the next one.
  void look(std::int32_t at);
  void join(std::int32_t at);
  void merge_few();
  void merge_many();
  void emit_sentencepiece(std::string_view word, Ids& ids);

  const Tables& tables_;
  std::unordered_map<std::string_view, std::uint32_t> extras_;
  bool unused_ = false;  // whether the vocabulary has unused tokens
  std::vector<Symbol> symbols_;
  struct Candidate {
    std::uint32_t rank;
    std::int32_t at;
    std::uint32_t result;
    bool operator<(const Candidate& other) const {
      return rank > other.rank || (rank == other.rank && at > other.at);
    }
  };
  std::vector<Candidate> heap_;
  // For each unused token, the two parts of the merge into it that was looked up last.
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> halves_;
};

/// Finds the segmentation with the highest sum of scores (Viterbi). Rounds sums to float, like
/// sentencepiece, if Settings::single_precision is set; else to double.
class UnigramModel {
 public:
  explicit UnigramModel(const Tables& tables) : tables_(tables) {}
  void encode(std::string_view word, Ids& ids);

 private:
  struct BestPath {
    std::int32_t id = -1;
    double score = 0;
    std::ptrdiff_t from = -1;
  };
  const Tables& tables_;
  std::vector<BestPath> best_;
  std::vector<std::pair<std::string_view, std::int32_t>> path_;
};

/// Repeatedly removes the longest possible piece from the front of a word, like BERT.
class WordPieceModel {
 public:
  explicit WordPieceModel(const Tables& tables) : tables_(tables) {}
  void encode(std::string_view word, Ids& ids);

 private:
  const Tables& tables_;
  std::string piece_;
};

}  // namespace llmc::hosted
