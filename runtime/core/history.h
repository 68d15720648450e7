#pragma once

#include <stdint.h>

namespace llmc::core {

/// The id of a position whose row was given as an embedding.
inline constexpr int32_t kNoToken = -1;

/// Exclusive upper limit of token positions: kernels return NaN for angles from 2^22 on (math.h).
inline constexpr int64_t kPositionLimit = int64_t{1} << 22;

/// Returns the id of an embedding after which text continues at positions that are `shift` larger
/// than its indices in the sequence. Models with several position axes (llmc_model::position_axes)
/// store this id in place of kNoToken, which is the id for shift 0. Requires |shift| < 2^30.
inline int32_t embedding_id(int32_t shift) {
  return kNoToken - (shift < 0 ? -2 * shift - 1 : 2 * shift);
}
/// Returns the shift of an embedding's id, which is negative.
inline int32_t shift_of(int32_t id) {
  const int32_t code = kNoToken - id;
  return code % 2 == 0 ? code / 2 : -(code / 2) - 1;
}

/// The tokens of a sequence, oldest first. They are stored at the start of the cache's blocks, and
/// are shared and copied with the blocks. Valid until the next change of the session.
class TokenHistory {
 public:
  TokenHistory(unsigned char* const* blocks, uint32_t block_tokens, uint32_t count)
      : blocks_(blocks), block_tokens_(block_tokens), count_(count) {}

  uint32_t count() const { return count_; }
  /// Returns kNoToken for an embedding. Requires i < count().
  int32_t operator[](uint32_t i) const {
    const int32_t id = stored(i);
    return id < 0 ? kNoToken : id;
  }
  /// Returns a token, or the embedding_id of an embedding. Requires i < count().
  int32_t stored(uint32_t i) const {
    const auto* tokens = reinterpret_cast<const int32_t*>(blocks_[i / block_tokens_]);
    return tokens[i % block_tokens_];
  }

 private:
  unsigned char* const* blocks_;
  uint32_t block_tokens_;
  uint32_t count_;
};

}  // namespace llmc::core
