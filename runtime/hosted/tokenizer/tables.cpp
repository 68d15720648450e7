#include "runtime/hosted/tokenizer/tables.h"

#include <algorithm>
#include <cmath>

#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/normalizers.h"
#include "runtime/hosted/tokenizer/pretokenizers.h"
#include "runtime/hosted/tokenizer/split_regex.h"

namespace llmc::hosted {
namespace {

// Sizes of the elements, in the order of Section.
constexpr std::size_t kElementBytes[] = {sizeof(Settings),
                                         1,
                                         sizeof(TokenRecord),
                                         sizeof(double),
                                         4,
                                         sizeof(MergeRecord),
                                         sizeof(TokenRecord),
                                         sizeof(IndexRecord),
                                         sizeof(IndexRecord),
                                         sizeof(IndexRecord),
                                         sizeof(IndexRecord),
                                         sizeof(StepRecord),
                                         sizeof(StepRecord),
                                         4,
                                         4,
                                         4,
                                         4,
                                         4};
static_assert(std::size(kElementBytes) == kSections);

/// Returns whether no run of occupied slots is longer than kMaxProbes, so that each search ends
/// soon.
template <class Record, class IsEmpty>
bool searches_end(std::span<const Record> table, IsEmpty&& is_empty) {
  const auto first = std::ranges::find_if(table, is_empty);
  if (first == table.end()) return false;
  // Go once around the table, from an empty slot back to the same slot.
  const auto begin = static_cast<std::size_t>(first - table.begin());
  std::size_t run = 0;
  for (std::size_t i = 1; i <= table.size(); ++i) {
    run = is_empty(table[(begin + i) % table.size()]) ? 0 : run + 1;
    if (run > kMaxProbes) return false;
  }
  return true;
}

}  // namespace

bool is_tables(std::string_view content) {
  return content.starts_with(std::string_view(kTablesMagic, sizeof kTablesMagic));
}

template <class T>
std::span<const T> Tables::section(Section which) const {
  const auto& range = header_->ranges[static_cast<std::size_t>(which)];
  return {reinterpret_cast<const T*>(base_ + range.offset), static_cast<std::size_t>(range.count)};
}

std::span<const std::int32_t> Tables::ids(Section which) const {
  return section<std::int32_t>(which);
}

bool Tables::fits(TextRef ref) const {
  const std::uint64_t bytes = header_->ranges[static_cast<std::size_t>(Section::kText)].count;
  return std::uint64_t{ref.at} + ref.bytes <= bytes;
}

std::string Tables::read_places(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(TablesHeader)) return "is cut short";
  base_ = bytes.data();
  header_ = reinterpret_cast<const TablesHeader*>(base_);
  if (!std::equal(std::begin(kTablesMagic), std::end(kTablesMagic), header_->magic))
    return "is not a compiled tokenizer";
  if (header_->version != kTablesVersion || header_->sections != kSections)
    return "is of format " + std::to_string(header_->version) + ", this program reads " +
           std::to_string(kTablesVersion) + "; compile the model again";
  if (header_->bytes != bytes.size()) return "is truncated or has data after its end";
  const std::string_view content(reinterpret_cast<const char*>(base_) + sizeof(TablesHeader),
                                 bytes.size() - sizeof(TablesHeader));
  if (table_hash(content) != header_->checksum) return "is damaged: its checksum is wrong";
  for (std::size_t i = 0; i < kSections; ++i) {
    const auto& range = header_->ranges[i];
    if (range.offset % 8 != 0 || range.offset < sizeof(TablesHeader) ||
        range.offset > bytes.size() ||
        range.count > (bytes.size() - range.offset) / kElementBytes[i])
      return "is damaged: a section lies outside";
  }
  return {};
}

std::string Tables::check_tokens() {
  const auto good = [&](const TokenRecord& token) {
    return fits(token.name) && fits(token.surface) && token.name.bytes <= kMaxTokenBytes &&
           token.reads_as < static_cast<std::int64_t>(tokens_.size());
  };
  if (tokens_.size() > kMaxTokens || extras_.size() > kMaxTokens) return "too many tokens";
  if (!std::all_of(tokens_.begin(), tokens_.end(), good) ||
      !std::all_of(extras_.begin(), extras_.end(), good))
    return "a token is out of bounds";
  const auto unused = [](const TokenRecord& t) { return (t.flags & kUnusedToken) != 0; };
  has_unused_ = std::any_of(tokens_.begin(), tokens_.end(), unused);
  const auto count = static_cast<std::int64_t>(tokens_.size());
  for (const Section list :
       {Section::kSpecialIds, Section::kStopIds, Section::kPrefixIds, Section::kSuffixIds})
    for (const std::int32_t id : ids(list))
      if (id < 0 || id >= count) return "a special id is out of range";
  if (byte_nodes_.size() != 256) return "there are not 256 bytes";
  for (const std::int32_t id : byte_nodes_)
    if (id < -1 || id >= count) return "a byte's token is out of range";
  return {};
}

std::string Tables::check_model() const {
  const Settings& s = *settings_;
  const auto count = static_cast<std::int64_t>(tokens_.size());
  if (s.model > ModelKind::kWordPiece || s.units > Units::kSentencePiece ||
      s.leading_spaces > static_cast<std::uint32_t>(Tokenizer::LeadingSpaces::kFirstTokenDropped) ||
      s.longest_token > kMaxTokenBytes || s.max_word_characters > kMaxWordCharacters ||
      s.unknown < -1 || s.unknown >= count || !fits(s.continuation) ||
      !std::isfinite(s.unknown_score) || !std::isfinite(s.symbol_score))
    return "a setting is out of range";
  if (!std::has_single_bit(vocabulary_.size()) ||
      !searches_end(vocabulary_, [](std::uint32_t entry) { return entry == 0; }))
    return "the vocabulary's index is not a hash table";
  for (const std::uint32_t entry : vocabulary_)
    if (entry > tokens_.size()) return "the vocabulary's index is out of range";
  // Only sentencepiece's BPE may have nodes that are not tokens. It emits the tokens in their
  // reads_as.
  if (!extras_.empty() && (s.model != ModelKind::kBpe || s.units != Units::kSentencePiece))
    return "there are nodes that are not tokens";
  if (s.model == ModelKind::kUnigram) {
    if (scores_.size() != tokens_.size()) return "there is not a score for each token";
    for (const double score : scores_)
      if (!std::isfinite(score)) return "a score is not finite";
    return {};
  }
  if (s.model == ModelKind::kWordPiece) return s.unknown < 0 ? "there is no unknown token" : "";
  if (s.units == Units::kBytes &&
      std::find(byte_nodes_.begin(), byte_nodes_.end(), -1) != byte_nodes_.end())
    return "a byte has no token: some text has no ids";
  const auto is_empty = [](const MergeRecord& merge) { return merge.left == kNoNode; };
  if (!std::has_single_bit(merges_.size()) || !searches_end(merges_, is_empty))
    return "the merges are not a hash table";
  for (const MergeRecord& merge : merges_) {
    if (is_empty(merge)) continue;
    if (merge.left >= nodes() || merge.right >= nodes() || merge.result >= nodes())
      return "a merge is out of range";
    // The result of a merge must be longer than its parts, so that splitting it again terminates.
    if (node(merge.left).name.bytes == 0 || node(merge.right).name.bytes == 0 ||
        node(merge.left).name.bytes + node(merge.right).name.bytes != node(merge.result).name.bytes)
      return "a merge is not of two tokens that make a third";
  }
  return {};
}

std::string Tables::check_index(Section which) const {
  for (const IndexRecord& record : section<IndexRecord>(which))
    if (!fits(record.text) || record.value >= tokens_.size() || record.text.bytes == 0 ||
        record.text.bytes > 4 * kMaxTokenBytes)
      return "an index is out of range";
  return {};
}

std::string Tables::check_steps() const {
  for (const auto steps : {normalizers_, pretokenizers_})
    for (const StepRecord& step : steps)
      if (!fits(step.first) || !fits(step.second)) return "a step is out of bounds";
  for (const StepRecord& step : normalizers_)
    if (!is_normalizer(*this, step)) return "a step of the normalization is unknown";
  for (const StepRecord& step : pretokenizers_)
    if (!is_pretokenizer(step)) return "a step of splitting is unknown";
  // Maximum factor by which all steps together may expand a byte of text. Without it, several steps
  // that each expand the text could exceed the memory.
  constexpr std::size_t kMaxSteps = 64;
  constexpr double kMaxGrowth = 1e4;
  double growth = 1;
  for (const StepRecord& step : normalizers_) {
    const auto kind = static_cast<Normalizer>(step.kind);
    if (kind == Normalizer::kReplace)
      growth *= std::max(1.0, double{1.0} * step.second.bytes / step.first.bytes);
    if (kind == Normalizer::kReplaceSpaces) growth *= std::max<double>(1.0, step.second.bytes);
    // A replacement of sentencepiece's rules has at most 256 bytes (charsmap.cpp).
    const bool rules = kind == Normalizer::kCharsmap || kind == Normalizer::kSentencePiece;
    if (rules && step.first.bytes > 0) growth *= 256.0;
    if (kind == Normalizer::kPrepend) growth *= 1.0 + step.first.bytes / 1024.0;
  }
  for (const StepRecord& step : pretokenizers_)
    if (static_cast<Pretokenizer>(step.kind) == Pretokenizer::kMetaspace)
      growth *= std::max<double>(1.0, step.first.bytes);
  if (normalizers_.size() > kMaxSteps || pretokenizers_.size() > kMaxSteps || growth > kMaxGrowth)
    return "the steps before the model make too much of a text";
  return {};
}

std::string Tables::compile_patterns() {
  for (const StepRecord& step : pretokenizers_) {
    std::shared_ptr<SplitRegex> pattern;
    if (static_cast<Pretokenizer>(step.kind) == Pretokenizer::kPattern) {
      pattern = std::make_shared<SplitRegex>();
      if (const Problem problem = pattern->compile(text(step.first)); !problem.empty())
        return "a pattern of splitting: " + problem.text;
    }
    patterns_.push_back(std::move(pattern));
  }
  return {};
}

Outcome<Tables> Tables::open(std::span<const std::byte> bytes, const std::string& name) {
  Tables t;
  std::string problem = t.read_places(bytes);
  const auto failure = [&] { return Failure{LLMC_ERROR_FORMAT, name + ": " + problem}; };
  if (!problem.empty()) return failure();
  const auto settings = t.section<Settings>(Section::kSettings);
  problem = "is damaged: there is not one list of settings";
  if (settings.size() != 1) return failure();
  t.settings_ = settings.data();
  t.pool_ = t.section<char>(Section::kText).data();
  t.tokens_ = t.section<TokenRecord>(Section::kTokens);
  t.extras_ = t.section<TokenRecord>(Section::kExtras);
  t.scores_ = t.section<double>(Section::kScores);
  t.vocabulary_ = t.section<std::uint32_t>(Section::kVocabulary);
  t.merges_ = t.section<MergeRecord>(Section::kMerges);
  t.normalizers_ = t.section<StepRecord>(Section::kNormalizers);
  t.pretokenizers_ = t.section<StepRecord>(Section::kPretokenizers);
  t.byte_nodes_ = t.section<std::int32_t>(Section::kByteNodes);
  problem = t.check_tokens();
  if (problem.empty()) problem = t.check_model();
  for (const Section which :
       {Section::kPieces, Section::kSymbols, Section::kAdded, Section::kAddedAfter})
    if (problem.empty()) problem = t.check_index(which);
  if (problem.empty()) problem = t.check_steps();
  if (problem.empty()) problem = t.compile_patterns();
  if (!problem.empty()) return failure();
  const auto index = [&](Section which) {
    return TextIndex(t.pool_, t.section<IndexRecord>(which));
  };
  t.pieces_ = index(Section::kPieces);
  t.symbols_ = index(Section::kSymbols);
  t.added_ = index(Section::kAdded);
  t.added_after_ = index(Section::kAddedAfter);
  return t;
}

std::uint32_t Tables::find(std::string_view name) const {
  if (name.size() > settings_->longest_token) return kNoNode;
  const std::size_t mask = vocabulary_.size() - 1;
  for (std::size_t i = table_hash(name) & mask; vocabulary_[i] != 0; i = (i + 1) & mask)
    if (text(tokens_[vocabulary_[i] - 1].name) == name) return vocabulary_[i] - 1;
  return kNoNode;
}

const MergeRecord* Tables::merge(std::uint32_t left, std::uint32_t right) const {
  const std::size_t mask = merges_.size() - 1;
  for (std::size_t i = pair_hash(left, right) & mask; merges_[i].left != kNoNode;
       i = (i + 1) & mask)
    if (merges_[i].left == left && merges_[i].right == right) return &merges_[i];
  return nullptr;
}

}  // namespace llmc::hosted
