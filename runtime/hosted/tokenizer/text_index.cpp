#include <algorithm>

#include "runtime/hosted/tokenizer/tables.h"

namespace llmc::hosted {
namespace {

/// Returns the byte of a record's text at `depth`; -1 after its end.
int byte_at(const char* pool, const IndexRecord& record, std::size_t depth) {
  return depth < record.text.bytes
             ? static_cast<int>(static_cast<unsigned char>(pool[record.text.at + depth]))
             : -1;
}

}  // namespace

TextIndex::TextIndex(const char* pool, std::span<const IndexRecord> records)
    : pool_(pool), records_(records), starts_(257) {
  for (int byte = 0; byte <= 256; ++byte) {
    const auto* const at =
        std::partition_point(records.data(), records.data() + records.size(),
                             [&](const IndexRecord& r) { return byte_at(pool, r, 0) < byte; });
    starts_[static_cast<std::size_t>(byte)] = static_cast<std::uint32_t>(at - records.data());
  }
}

bool TextIndex::Cursor::advance(char byte) {
  const int value = static_cast<unsigned char>(byte);
  if (depth_ == 0 && !index_.starts_.empty()) {
    const auto* const all = index_.records_.data();
    first_ = all + index_.starts_[static_cast<std::size_t>(value)];
    // The records of damaged tables may not be sorted.
    last_ = std::max(first_, all + index_.starts_[static_cast<std::size_t>(value) + 1]);
  } else {
    const auto before = [&](const IndexRecord& r) {
      return byte_at(index_.pool_, r, depth_) < value;
    };
    const auto upto = [&](const IndexRecord& r) {
      return byte_at(index_.pool_, r, depth_) <= value;
    };
    first_ = std::partition_point(first_, last_, before);
    last_ = std::partition_point(first_, last_, upto);
  }
  ++depth_;
  return first_ != last_;
}

const IndexRecord* TextIndex::longest(std::string_view text) const {
  if (records_.empty()) return nullptr;
  Cursor cursor(*this);
  const IndexRecord* found = nullptr;
  for (const char byte : text) {
    if (!cursor.advance(byte)) break;
    if (const IndexRecord* match = cursor.match()) found = match;
  }
  return found;
}

}  // namespace llmc::hosted
