#include "runtime/hosted/dry_breakers.h"

#include <gtest/gtest.h>

#include <map>

namespace llmc::hosted {
namespace {

/// A vocabulary; texts are cut into its longest words.
class Words final : public Tokenizer {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}
  std::size_t size() const override { return words_.size(); }
  std::string_view bytes_of(std::int32_t id) const override {
    return words_[static_cast<std::size_t>(id)];
  }
  std::string_view name_of(std::int32_t id) const override { return bytes_of(id); }
  LeadingSpaces leading_spaces() const override { return LeadingSpaces::kKept; }
  std::span<const std::byte> tables() const override { return {}; }

 protected:
  void encode_text(std::string_view text, bool /*parse_special*/,
                   std::vector<std::int32_t>& ids) const override {
    while (!text.empty()) {
      std::size_t best = 0, length = 0;
      for (std::size_t i = 0; i < words_.size(); ++i) {
        if (text.starts_with(words_[i]) && words_[i].size() > length)
          best = i, length = words_[i].size();
      }
      if (length == 0) return;
      ids.push_back(static_cast<std::int32_t>(best));
      text.remove_prefix(length);
    }
  }

 private:
  std::vector<std::string> words_;
};

/// The breakers as lists, first token first.
std::multimap<std::int32_t, std::vector<std::int32_t>> lists(const DryBreakers& breakers) {
  std::multimap<std::int32_t, std::vector<std::int32_t>> result;
  const llmc_dry_breakers table = breakers.table();
  for (std::uint32_t i = 0; i < table.count; ++i) {
    if (i > 0) EXPECT_LE(table.heads[i - 1], table.heads[i]);
    result.emplace(table.heads[i],
                   std::vector<std::int32_t>(table.tails + table.tail_begins[i],
                                             table.tails + table.tail_begins[i + 1]));
  }
  return result;
}
using Lists = std::multimap<std::int32_t, std::vector<std::int32_t>>;

TEST(DryBreakers, TokensThatHoldAStringBreakAlone) {
  const Words words({"a", "b\n", "\n\n", ":", "x"});
  EXPECT_EQ(lists(dry_breakers(words, {"\n"}, 99)), (Lists{{1, {}}, {2, {}}}));
  EXPECT_EQ(lists(dry_breakers(words, {"\n", ":"}, 99)), (Lists{{1, {}}, {2, {}}, {3, {}}}));
  EXPECT_EQ(lists(dry_breakers(words, {"\n", ":"}, 2)), (Lists{{1, {}}}));
  EXPECT_EQ(lists(dry_breakers(words, {}, 99)), Lists{});
  EXPECT_EQ(lists(dry_breakers(words, {""}, 99)), Lists{});
  EXPECT_EQ(lists(dry_breakers(words, {"q"}, 99)), Lists{});
}

TEST(DryBreakers, TokensThatEndWithItsBeginningNeedTheRest) {
  const Words words({"a", "ab", "b", "c", "bc", "xa"});
  // "abc": a or xa and then bc; ab and then c. No token holds it.
  EXPECT_EQ(lists(dry_breakers(words, {"abc"}, 99)), (Lists{{0, {4}}, {1, {3}}, {5, {4}}}));
  // "aa": a and a; both beginnings of "aab" end in a.
  EXPECT_EQ(lists(dry_breakers(words, {"aa"}, 99)), (Lists{{0, {0}}, {5, {0}}}));
  EXPECT_EQ(lists(dry_breakers(words, {"aab"}, 99)), (Lists{{0, {1}}, {5, {1}}}));
}

}  // namespace
}  // namespace llmc::hosted
