#pragma once

#include <stdint.h>

namespace llmc::core {

/// The id of a position whose row was given as an embedding.
inline constexpr int32_t kNoToken = -1;

/// The tokens of a sequence, oldest first. They are stored at the start of the cache's blocks, and
/// are shared and copied with the blocks. Valid until the next change of the session.
class TokenHistory {
 public:
  TokenHistory(unsigned char* const* blocks, uint32_t block_tokens, uint32_t count)
      : blocks_(blocks), block_tokens_(block_tokens), count_(count) {}

  uint32_t count() const { return count_; }
  /// Returns kNoToken for an embedding. Requires i < count().
  int32_t operator[](uint32_t i) const {
    const auto* tokens = reinterpret_cast<const int32_t*>(blocks_[i / block_tokens_]);
    return tokens[i % block_tokens_];
  }

 private:
  unsigned char* const* blocks_;
  uint32_t block_tokens_;
  uint32_t count_;
};

}  // namespace llmc::core
