#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/hosted/tokenizer/spec.h"

namespace llmc::hosted {
namespace {

class Writer {
 public:
  explicit Writer(const TokenizerSpec& spec) : spec_(spec), settings_(spec.settings) {}

  /// Fills the sections. Returns what is wrong; empty on success.
  std::string fill() {
    for (const SpecToken& token : spec_.tokens) {
      if (token.name.size() > kMaxTokenBytes)
        return "a token is longer than " + std::to_string(kMaxTokenBytes) + " bytes";
      tokens_.push_back(record(token, static_cast<std::int32_t>(tokens_.size())));
      if (token.in_model)
        settings_.longest_token =
            std::max(settings_.longest_token, static_cast<std::uint32_t>(token.name.size()));
    }
    for (std::size_t i = 0; i < spec_.reads_as.size(); ++i) tokens_[i].reads_as = spec_.reads_as[i];
    for (const SpecToken& extra : spec_.extras)
      extras_.push_back(record(extra, static_cast<std::int32_t>(extra.score)));
    if (!fill_vocabulary() || !fill_merges())
      return "too many tokens fall into one slot of an index: they were chosen to be slow";
    if (settings_.model == ModelKind::kUnigram) {
      for (const SpecToken& token : spec_.tokens) scores_.push_back(token.score);
      fill_pieces();
    }
    fill_symbols();
    std::set<std::pair<std::uint32_t, std::uint32_t>> listed;  // equal texts have the same offset
    for (const SpecAdded& added : spec_.added) {
      const IndexRecord entry{put(added.text), static_cast<std::uint32_t>(added.id), added.flags};
      // The first entry of a token applies, as in Hugging Face's tokenizers; entries may differ in
      // flags.
      if (!listed.emplace(entry.text.at, entry.value).second) continue;
      (added.normalized ? added_after_ : added_).push_back(entry);
    }
    for (auto* const index : {&pieces_, &symbols_, &added_, &added_after_}) sort(*index);
    fill_steps(spec_.normalizers, normalizers_);
    fill_steps(spec_.pretokenizers, pretokenizers_);
    settings_.continuation = put(spec_.continuation);
    byte_nodes_ = spec_.byte_tokens;
    byte_nodes_.resize(256, -1);
    return text_.size() > 0xFFFFFFFFu ? "the vocabulary is too large" : "";
  }

  std::vector<std::byte> bytes() {
    TablesHeader header;
    std::memcpy(header.magic, kTablesMagic, sizeof kTablesMagic);
    header.version = kTablesVersion;
    header.sections = kSections;
    out_.resize(sizeof header);
    add(header, Section::kSettings, std::vector<Settings>{settings_});
    add(header, Section::kText, std::vector<char>(text_.begin(), text_.end()));
    add(header, Section::kTokens, tokens_);
    add(header, Section::kScores, scores_);
    add(header, Section::kVocabulary, vocabulary_);
    add(header, Section::kMerges, merges_);
    add(header, Section::kExtras, extras_);
    add(header, Section::kPieces, pieces_);
    add(header, Section::kSymbols, symbols_);
    add(header, Section::kAdded, added_);
    add(header, Section::kAddedAfter, added_after_);
    add(header, Section::kNormalizers, normalizers_);
    add(header, Section::kPretokenizers, pretokenizers_);
    add(header, Section::kByteNodes, byte_nodes_);
    add(header, Section::kSpecialIds, spec_.ids.special);
    add(header, Section::kStopIds, spec_.ids.stop);
    add(header, Section::kPrefixIds, spec_.ids.prefix);
    add(header, Section::kSuffixIds, spec_.ids.suffix);
    header.bytes = out_.size();
    header.checksum = table_hash(
        {reinterpret_cast<const char*>(out_.data()) + sizeof header, out_.size() - sizeof header});
    std::memcpy(out_.data(), &header, sizeof header);
    return std::move(out_);
  }

 private:
  TextRef put(const std::string& text) {
    if (text.empty()) return {};
    const auto [it, added] = places_.try_emplace(text, static_cast<std::uint32_t>(text_.size()));
    if (added) text_ += text;
    return {it->second, static_cast<std::uint32_t>(text.size())};
  }
  std::string_view at(TextRef ref) const {
    return std::string_view(text_).substr(ref.at, ref.bytes);
  }
  TokenRecord record(const SpecToken& token, std::int32_t reads_as) {
    return {put(token.name), put(token.surface), token.flags, reads_as};
  }

  /// Fills the hash table. Returns false if a search would take more than kMaxProbes steps, like
  /// fill_merges().
  bool fill_vocabulary() {
    vocabulary_.assign(std::bit_ceil(tokens_.size() * 3 / 2 + 2), 0);
    const std::size_t mask = vocabulary_.size() - 1;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (!spec_.tokens[id].in_model || spec_.tokens[id].name.empty()) continue;
      std::size_t i = table_hash(spec_.tokens[id].name) & mask;
      bool known = false;  // the lowest id with a name is kept
      std::size_t probes = 0;
      for (; vocabulary_[i] != 0 && !known; i = (i + 1) & mask) {
        known = spec_.tokens[vocabulary_[i] - 1].name == spec_.tokens[id].name;
        if (++probes >= kMaxProbes) return false;
      }
      if (!known) vocabulary_[i] = static_cast<std::uint32_t>(id) + 1;
    }
    return true;
  }

  bool fill_merges() {
    merges_.assign(std::bit_ceil(spec_.merges.size() * 3 / 2 + 2), {});
    const std::size_t mask = merges_.size() - 1;
    for (const auto& [merge, rank] : spec_.merges) {
      std::size_t i = pair_hash(merge.left, merge.right) & mask;
      std::size_t probes = 0;
      while (merges_[i].left != kNoNode &&
             (merges_[i].left != merge.left || merges_[i].right != merge.right)) {
        i = (i + 1) & mask;
        if (++probes >= kMaxProbes) return false;
      }
      merges_[i] = {merge.left, merge.right, rank,
                    merge.result};  // the last of several equal entries is kept
    }
    return true;
  }

  void fill_pieces() {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const SpecToken& token = spec_.tokens[id];
      if (token.in_model && !token.name.empty() && (token.flags & kUnusedToken) == 0)
        pieces_.push_back({tokens_[id].name, static_cast<std::uint32_t>(id), token.flags});
    }
  }
  void fill_symbols() {
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if ((spec_.tokens[id].flags & kSymbolToken) != 0 && !spec_.tokens[id].name.empty())
        symbols_.push_back({tokens_[id].name, static_cast<std::uint32_t>(id), 0});
  }

  /// Sorts by text. Of several equal texts, keeps the one with the lowest id.
  void sort(std::vector<IndexRecord>& index) const {
    std::sort(index.begin(), index.end(), [&](const IndexRecord& a, const IndexRecord& b) {
      const int order = at(a.text).compare(at(b.text));
      return order < 0 || (order == 0 && a.value < b.value);
    });
    index.erase(std::unique(index.begin(), index.end(),
                            [&](const IndexRecord& a, const IndexRecord& b) {
                              return at(a.text) == at(b.text);
                            }),
                index.end());
  }

  void fill_steps(const std::vector<SpecStep>& from, std::vector<StepRecord>& to) {
    for (const SpecStep& step : from)
      to.push_back({step.kind, step.flags, put(step.first), put(step.second)});
  }

  template <class T>
  void add(TablesHeader& header, Section which, const std::vector<T>& values) {
    out_.resize((out_.size() + 7) / 8 * 8);
    header.ranges[static_cast<std::size_t>(which)] = {out_.size(), values.size()};
    const std::size_t at = out_.size(), bytes = values.size() * sizeof(T);
    out_.resize(at + bytes);
    if (bytes > 0) std::memcpy(out_.data() + at, values.data(), bytes);
  }

  const TokenizerSpec& spec_;
  Settings settings_;
  std::string text_;
  std::unordered_map<std::string, std::uint32_t> places_;
  std::vector<TokenRecord> tokens_, extras_;
  std::vector<double> scores_;
  std::vector<std::uint32_t> vocabulary_;
  std::vector<MergeRecord> merges_;
  std::vector<IndexRecord> pieces_, symbols_, added_, added_after_;
  std::vector<StepRecord> normalizers_, pretokenizers_;
  std::vector<std::int32_t> byte_nodes_;
  std::vector<std::byte> out_;
};

}  // namespace

Outcome<std::vector<std::byte>> make_tables(const TokenizerSpec& spec, const std::string& name) {
  Writer writer(spec);
  if (const std::string problem = writer.fill(); !problem.empty())
    return Failure{LLMC_ERROR_FORMAT, name + ": " + problem};
  std::vector<std::byte> bytes = writer.bytes();
  if (auto opened = Tables::open(bytes, name); !opened) return opened.failure();
  return bytes;
}

}  // namespace llmc::hosted
