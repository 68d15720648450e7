#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "llmc/grammar.h"
#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {

/// A grammar's tables by hand: every token but the last is a letter, a text is any letters, and the
/// last token ends it.
struct FreeGrammar {
  llmc_grammar_header header{};
  llmc_grammar_state states[2] = {{0, 0, 1, 1}, {1, 0, 0, 0}};
  llmc_grammar_edge edge = {0, 255, 0, 0, 0};
  llmc_grammar_context context = {0, 0, 0};
  llmc_grammar_mask masks[2] = {{0, 0, 0}, {0, kVocab - 1, 0}};
  std::uint32_t flips[kVocab - 1];
  std::uint32_t stop = kVocab - 1;
  std::uint32_t offsets[kVocab + 1];
  std::uint8_t text[(kVocab - 1 + 3) / 4 * 4] = {};

  FreeGrammar() {
    for (std::uint32_t i = 0; i + 1 < kVocab; ++i) {
      flips[i] = offsets[i] = i;
      text[i] = static_cast<std::uint8_t>('a' + i % 26);
    }
    offsets[kVocab - 1] = offsets[kVocab] = kVocab - 1;
    std::memcpy(header.magic, LLMC_GRAMMAR_MAGIC, sizeof header.magic);
    header.bytes = bytes();
    header.vocab = kVocab;
    header.states = header.edges = header.masks = header.stops = 1;
    header.flips = header.text_bytes = kVocab - 1;
    header.hash = llmc_grammar_hash(
        LLMC_GRAMMAR_HASH_START,
        reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const unsigned char*>(this) +
                                               LLMC_GRAMMAR_HASHED_FROM),
        (bytes() - LLMC_GRAMMAR_HASHED_FROM) / 4);
  }
  std::size_t bytes() const { return offsetof(FreeGrammar, text) + sizeof text; }
};

}  // namespace llmc::fake
