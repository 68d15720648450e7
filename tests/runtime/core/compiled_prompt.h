#pragma once

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {

/// Tokens computed once and put where sequences of a model begin with them, as a compiler does it:
/// from a saved state (llmc/model.h) to blocks outside the arena. It must outlive the model.
class CompiledPrompt {
 public:
  /// `m`: what the model is without them; `tokens`: 1 to its context.
  CompiledPrompt(llmc_model m, std::vector<std::int32_t> tokens)
      : tokens_(std::move(tokens)),
        row_(m.hidden),
        blocks_((tokens_.size() + m.kv_block - 1) / m.kv_block * m.kv_block_bytes) {
    Session maker(config(), m);
    std::vector<unsigned char> state;
    if (llmc_prefill(maker, tokens_.data(), tokens_.size(), nullptr) == LLMC_OK) {
      state.resize(llmc_state_bytes(maker));
      llmc_state_save(maker, state.data(), state.size(), nullptr);
    }
    if (state.empty()) std::abort();
    const auto count = static_cast<std::uint32_t>(tokens_.size());
    const llmc_state_layout at = llmc_state_layout_of(&m, count, 1, 0);
    std::memcpy(row_.data(), state.data() + at.row, m.hidden * sizeof(float));
    std::memset(blocks_.data(), 0, blocks_.size());
    for (std::uint32_t first = 0; first < count; first += m.kv_block) {
      unsigned char* const block = blocks_.data() + first / m.kv_block * m.kv_block_bytes;
      const std::uint32_t slots = std::min(m.kv_block, count - first);
      std::memcpy(block, tokens_.data() + first, slots * sizeof(std::int32_t));
      m.kv_load(block, 0, slots, state.data() + at.kv + first * m.kv_token_bytes);
    }
    before_.assign(blocks_.data(), blocks_.data() + blocks_.size());
  }

  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  llmc_model in(llmc_model m) const {
    m.prefix_tokens = static_cast<std::uint32_t>(tokens_.size());
    m.prefix_blocks = blocks_.data();
    m.prefix_row = row_.data();
    return m;
  }
  /// Nobody wrote to it.
  bool intact() const { return std::equal(before_.begin(), before_.end(), blocks_.data()); }
  bool holds(const unsigned char* block) const {
    return block >= blocks_.data() && block < blocks_.data() + blocks_.size();
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<float> row_;
  Arena blocks_;
  std::vector<unsigned char> before_;
};

}  // namespace llmc::fake
