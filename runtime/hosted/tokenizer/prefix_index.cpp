#include "runtime/hosted/tokenizer/prefix_index.h"

#include <algorithm>

namespace llmc::hosted {

PrefixIndex::PrefixIndex(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end());
  entries_.erase(std::unique(entries_.begin(), entries_.end(),
                             [](const Entry& a, const Entry& b) { return a.first == b.first; }),
                 entries_.end());
  if (!entries_.empty() && entries_.front().first.empty()) entries_.erase(entries_.begin());
}

bool PrefixIndex::Cursor::advance(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  const auto at_depth = [depth = depth_](const Entry& e) {
    return depth < e.first.size() ? static_cast<int>(static_cast<unsigned char>(e.first[depth]))
                                  : -1;
  };
  first_ = std::partition_point(first_, last_, [&](const Entry& e) { return at_depth(e) < value; });
  last_ = std::partition_point(first_, last_, [&](const Entry& e) { return at_depth(e) <= value; });
  ++depth_;
  return first_ != last_;
}

const PrefixIndex::Entry* PrefixIndex::longest(std::string_view text) const {
  Cursor cursor(*this);
  const Entry* found = nullptr;
  for (const char byte : text) {
    if (!cursor.advance(byte)) break;
    if (const Entry* match = cursor.match()) found = match;
  }
  return found;
}

}  // namespace llmc::hosted
