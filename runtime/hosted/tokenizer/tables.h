#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/outcome.h"

/// The tables of a tokenizer, which are identical in memory and in a NAME.tokenizer.bin: a header,
/// then sections. They are little-endian, and the offset of every section is a multiple of 8.
/// Everything that could cause an invalid access is checked when the tables are opened, except the
/// rules of a Charsmap and the order of sorted lists, which later code does not rely on.
namespace llmc::hosted {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t kTablesVersion = 2;
inline constexpr char kTablesMagic[8] = {'L', 'L', 'M', 'C', 'T', 'O', 'K', '\n'};
/// Maximum number of ids.
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 24;
/// Maximum size of a token in bytes. It bounds all work that depends on the length of a token.
inline constexpr std::size_t kMaxTokenBytes = 1024;
inline constexpr std::uint32_t kMaxWordCharacters = 1000;  // maximum word length of WordPiece
inline constexpr std::uint32_t kNoNode = 0xFFFFFFFF;
/// Maximum number of consecutive occupied slots of a hash table. A table is at most two thirds
/// full, so the longest random run among 16 million slots has a length of about 200. Only
/// vocabularies that are crafted to be slow have longer runs.
inline constexpr std::size_t kMaxProbes = 512;

/// A range of the text section.
struct TextRef {
  std::uint32_t at = 0, bytes = 0;
};

enum class ModelKind : std::uint32_t { kBpe, kUnigram, kWordPiece };

/// The units into which the model divides a word first.
enum class Units : std::uint32_t {
  kBytes,       // a token for each byte
  kCharacters,  // a token for each character, its bytes, or the unknown token (Hugging Face)
  /// Like kCharacters, but unknown characters are emitted after all merges, and user-defined
  /// symbols are not split.
  kSentencePiece,
};

struct Settings {
  ModelKind model = ModelKind::kBpe;
  Units units = Units::kBytes;
  std::uint32_t leading_spaces = 0;       // Tokenizer::LeadingSpaces
  std::int32_t unknown = -1;              // token for text that is not in the vocabulary; -1: none
  std::uint32_t byte_fallback = 0;        // whether unknown characters become byte tokens
  std::uint32_t fuse_unknown = 0;         // whether a run of unknown characters is one token
  std::uint32_t whole_words = 0;          // whether a word that is a token is not split
  std::uint32_t single_precision = 0;     // whether sums of scores are rounded to float
  std::uint32_t max_word_characters = 0;  // WordPiece: longer words are unknown
  std::uint32_t longest_token = 0;        // size in bytes of the longest key
  /// WordPiece: prefix of all pieces of a word except the first.
  TextRef continuation;
  /// Unigram: the score of an unknown character, and the score per byte of a user-defined symbol.
  double unknown_score = 0, symbol_score = 0;
};

enum TokenFlag : std::uint32_t {
  kControlToken = 1,  // not text
  kUnusedToken = 2,   // sentencepiece's unused tokens: matched, then split again
  kSymbolToken = 4,   // sentencepiece's user-defined symbols
};

struct TokenRecord {
  TextRef name;     // spelling in the vocabulary, the key in the model
  TextRef surface;  // the text that it represents
  std::uint32_t flags = 0;
  std::int32_t reads_as = -1;  // sentencepiece: the token with this name that is emitted, usually
                               // this one
};

/// BPE: the result of merging two neighbours. A node is a token or, after the last token, an
/// element of `extras`.
struct MergeRecord {
  std::uint32_t left = kNoNode, right = kNoNode;  // kNoNode: an empty slot
  std::uint32_t rank = 0, result = 0;             // the pair with the lowest rank is merged first
};

/// A key in a sorted list of texts, and its value.
struct IndexRecord {
  TextRef text;
  std::uint32_t value = 0, flags = 0;
};

enum AddedFlag : std::uint32_t {
  kAddedSpecial = 1,
  kAddedLeftStrip = 2,
  kAddedRightStrip = 4,
  kAddedSingleWord = 8,
};

/// A step of normalization (normalizers.h) or splitting (pretokenizers.h), which define the meaning
/// of `kind` and of the other fields.
struct StepRecord {
  std::uint32_t kind = 0, flags = 0;
  TextRef first, second;
};

enum class Section : std::uint32_t {
  kSettings,       // one Settings
  kText,           // bytes
  kTokens,         // TokenRecord by id
  kScores,         // double by id; unigram
  kVocabulary,     // std::uint32_t: id + 1 or 0, by hash of the name; the size is a power of two
  kMerges,         // MergeRecord by hash; the size is a power of two
  kExtras,         // TokenRecord of nodes that are not tokens; reads_as: the token, or -1
  kPieces,         // IndexRecord sorted by text: keys of the unigram model
  kSymbols,        // IndexRecord: user-defined symbols
  kAdded,          // IndexRecord: added tokens matched before normalization
  kAddedAfter,     // IndexRecord: added tokens matched after normalization
  kNormalizers,    // StepRecord
  kPretokenizers,  // StepRecord
  kByteNodes,      // 256 std::int32_t: the token of a byte, or -1
  kSpecialIds,     // std::int32_t, like the next three: the lists of SpecialIds
  kStopIds,
  kPrefixIds,
  kSuffixIds,
  kCount,
};
inline constexpr std::size_t kSections = static_cast<std::size_t>(Section::kCount);

struct TablesHeader {
  char magic[8] = {};
  std::uint32_t version = 0, sections = 0;
  std::uint64_t bytes = 0;     // total size of the header and the sections
  std::uint64_t checksum = 0;  // table_hash() of everything after the header
  struct SectionRange {
    std::uint64_t offset = 0, count = 0;  // offset from the start of the header; number of elements
  } ranges[kSections];
};

// Records have no padding.
static_assert(sizeof(Settings) == 64 && sizeof(TokenRecord) == 24 && sizeof(MergeRecord) == 16 &&
              sizeof(IndexRecord) == 16 && sizeof(StepRecord) == 24 &&
              sizeof(TablesHeader) == 32 + 16 * kSections);

/// Returns a hash of bytes that is the same on every platform.
inline std::uint64_t table_hash(std::string_view bytes) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::uint64_t hash = bytes.size() * kFactor;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 32;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    mix(word);
  }
  std::uint64_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  mix(rest);
  return hash;
}
inline std::uint64_t pair_hash(std::uint32_t left, std::uint32_t right) {
  const std::uint64_t hash = (std::uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 32;
}

/// Sorted texts that are searched byte by byte, like a trie.
class TextIndex {
 public:
  TextIndex() = default;
  TextIndex(const char* pool, std::span<const IndexRecord> records);

  /// The records that begin with the bytes consumed so far.
  class Cursor {
   public:
    explicit Cursor(const TextIndex& index)
        : index_(index), first_(index.records_.data()), last_(first_ + index.records_.size()) {}
    /// Consumes one byte. Returns false if no record begins with the consumed bytes.
    bool advance(char byte);
    /// Returns the record that equals the consumed bytes; nullptr if there is none.
    const IndexRecord* match() const {
      return first_ != last_ && first_->text.bytes == depth_ ? first_ : nullptr;
    }

   private:
    const TextIndex& index_;
    const IndexRecord* first_;
    const IndexRecord* last_;
    std::size_t depth_ = 0;
  };

  /// Returns the longest record with which `text` begins; nullptr if there is none.
  const IndexRecord* longest(std::string_view text) const;
  bool empty() const { return records_.empty(); }

 private:
  const char* pool_ = nullptr;
  std::span<const IndexRecord> records_;
  std::vector<std::uint32_t> starts_;  // [257] first record for each first byte
};

class SplitRegex;

/// A view of the tables of a tokenizer. The tables must outlive it.
class Tables {
 public:
  /// Opens and checks tables, which must be aligned to 8 bytes. Fails with LLMC_ERROR_FORMAT if
  /// they are incomplete or inconsistent.
  static Outcome<Tables> open(std::span<const std::byte> bytes, const std::string& name);

  const Settings& settings() const { return *settings_; }
  std::string_view text(TextRef ref) const { return {pool_ + ref.at, ref.bytes}; }
  std::span<const TokenRecord> tokens() const { return tokens_; }
  /// Returns a token, or a node that is not a token (kExtras).
  const TokenRecord& node(std::uint32_t index) const {
    return index < tokens_.size() ? tokens_[index] : extras_[index - tokens_.size()];
  }
  std::size_t nodes() const { return tokens_.size() + extras_.size(); }
  /// Returns whether the vocabulary has unused tokens (kUnusedToken).
  bool has_unused() const { return has_unused_; }
  std::span<const double> scores() const { return scores_; }
  /// Returns the token with this name; kNoNode if there is none.
  std::uint32_t find(std::string_view name) const;
  /// Returns the merge of two nodes; nullptr if they do not merge.
  const MergeRecord* merge(std::uint32_t left, std::uint32_t right) const;
  std::span<const TokenRecord> extras() const { return extras_; }
  const TextIndex& pieces() const { return pieces_; }
  const TextIndex& symbols() const { return symbols_; }
  const TextIndex& added() const { return added_; }
  const TextIndex& added_after() const { return added_after_; }
  std::span<const StepRecord> normalizers() const { return normalizers_; }
  std::span<const StepRecord> pretokenizers() const { return pretokenizers_; }
  /// Returns the regular expression of a step kPattern.
  const SplitRegex& pattern(std::size_t step) const { return *patterns_[step]; }
  std::int32_t byte_token(unsigned char byte) const { return byte_nodes_[byte]; }
  std::span<const std::int32_t> ids(Section section) const;

 private:
  template <class T>
  std::span<const T> section(Section which) const;
  /// Return what is wrong; empty if nothing is.
  std::string read_places(std::span<const std::byte> bytes);
  std::string check_tokens();
  std::string check_model() const;
  std::string check_index(Section which) const;
  std::string check_steps() const;
  std::string compile_patterns();
  bool fits(TextRef ref) const;

  const std::byte* base_ = nullptr;
  const TablesHeader* header_ = nullptr;
  const Settings* settings_ = nullptr;
  const char* pool_ = nullptr;
  std::span<const TokenRecord> tokens_, extras_;
  std::span<const double> scores_;
  std::span<const std::uint32_t> vocabulary_;
  std::span<const MergeRecord> merges_;
  std::span<const StepRecord> normalizers_, pretokenizers_;
  std::span<const std::int32_t> byte_nodes_;
  /// By step; null for steps without a pattern.
  std::vector<std::shared_ptr<const SplitRegex>> patterns_;
  TextIndex pieces_, symbols_, added_, added_after_;
  bool has_unused_ = false;
};

/// Returns whether the content begins like a tables file, which may be incomplete.
bool is_tables(std::string_view content);

}  // namespace llmc::hosted
