#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc::hosted {

/// Strings to look up byte by byte, as in a trie: sorted, so that what begins alike lies together.
/// The strings must outlive it.
class PrefixIndex {
 public:
  using Entry = std::pair<std::string_view, std::int32_t>;

  PrefixIndex() = default;
  /// Empty strings are left out; of equal ones the lowest id stays.
  explicit PrefixIndex(std::vector<Entry> entries);

  /// Entries that begin with the bytes given so far.
  class Cursor {
   public:
    explicit Cursor(const PrefixIndex& index)
        : first_(index.entries_.data()), last_(first_ + index.entries_.size()) {}
    /// One byte more; false when no entry begins so.
    bool advance(char byte);
    /// The entry that is exactly these bytes, or nullptr.
    const Entry* match() const {
      return first_ != last_ && first_->first.size() == depth_ ? first_ : nullptr;
    }

   private:
    const Entry* first_;
    const Entry* last_;
    std::size_t depth_ = 0;
  };

  /// The longest entry `text` begins with, or nullptr.
  const Entry* longest(std::string_view text) const;
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace llmc::hosted
