#pragma once

#include <optional>
#include <tuple>

#include "runtime/core/sampler.h"
#include "tests/runtime/core/plain_model.h"

/// The expected state of a session's sequence, derived from the calls only.
namespace llmc::fake {

/// Ids of tokens. From kEmbedding on: sums of embeddings, whose id is -1.
using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t kEmbedding = 1000;

inline Tokens ids_of(Tokens tokens) {
  for (std::int32_t& token : tokens)
    if (token >= kEmbedding) token = -1;
  return tokens;
}

struct Plain {
  /// A token that counts as drawn when it is appended at `position`.
  struct Drawn {
    std::size_t position = 0;
    std::int32_t token = 0;
    float mu = 0.0f;
  };
  struct Guide {
    std::uint32_t sequence = 0;
    float scale = 1.0f;
  };
  Tokens tokens;
  std::vector<float> mus;  // mirostat's state after each token
  bool has_positions = false;
  std::vector<Positions> positions;  // of each token, if it has several
  std::vector<std::int32_t> nexts;   // the position of text after each token
  bool logits = false;
  std::optional<Drawn> drawn;
  std::optional<Guide> guide;
  llmc_sampling sampling{};

  float mu() const { return mus.empty() ? 0.0f : mus.back(); }
  /// For appended tokens: mirostat's state after all of them.
  float mu_behind(std::int32_t first) const {
    const bool counts = drawn && drawn->position == tokens.size() && drawn->token == first;
    return counts ? drawn->mu : mu();
  }
  std::int32_t next() const { return nexts.empty() ? 0 : nexts.back(); }
  void place(const Positions& at) {
    const std::int32_t largest = *std::max_element(at.begin(), at.end());
    nexts.push_back(std::max(next(), largest + 1));
    positions.push_back(at);
  }
  /// Positions of the tokens that have none: those of text.
  void place_text() {
    while (has_positions && positions.size() < tokens.size()) place({next(), next()});
  }
  /// `relative`: positions of embeddings, as they are given; empty: those of text.
  void add(const Tokens& added, float mu_of_all, const std::vector<Positions>& relative = {}) {
    const std::int32_t base = next();
    for (const Positions& of_row : relative) place({base + of_row[0], base + of_row[1]});
    tokens.insert(tokens.end(), added.begin(), added.end());
    mus.insert(mus.end(), added.size(), mu_of_all);
    place_text();
    logits = true;
    drawn.reset();
  }
  /// The tokens of another one; what is set for this one stays.
  void restart(const Plain& from) {
    tokens = from.tokens;
    mus = from.mus;
    positions = from.positions;
    nexts = from.nexts;
    logits = from.logits;
    drawn.reset();
  }
  void cut(std::size_t position) {
    if (position >= tokens.size()) return;
    drawn = Drawn{position, ids_of(tokens)[position], mus[position]};
    tokens.resize(position);
    mus.resize(position);
    keep_positions(position);
    logits = false;
  }
  /// All tokens that move get the last one's state.
  void drop(std::size_t keep, std::size_t count) {
    const float last = mu();
    const auto at = static_cast<std::ptrdiff_t>(keep);
    tokens.erase(tokens.begin() + at, tokens.begin() + at + static_cast<std::ptrdiff_t>(count));
    mus.assign(mus.begin(), mus.begin() + at);
    mus.resize(tokens.size(), last);
    keep_positions(keep);
    place_text();
    logits = tokens.size() > keep;
    drawn.reset();
  }
  void keep_positions(std::size_t count) {
    if (!has_positions) return;
    positions.resize(count);
    nexts.resize(count);
  }
  /// Whether an embedding stands at or after `position`.
  bool embeddings_after(std::size_t position) const {
    return std::any_of(tokens.begin() + static_cast<std::ptrdiff_t>(position), tokens.end(),
                       [](std::int32_t token) { return token >= kEmbedding; });
  }
  /// Without what goes when `n` more tokens do not fit, as llmc.h says it.
  llmc_status make_room(std::size_t n, const llmc_config& config) {
    if (tokens.size() + n <= kContext) return LLMC_OK;
    if (config.full_context != LLMC_FULL_SLIDE) return LLMC_ERROR_CONTEXT_FULL;
    const std::size_t keep = std::min<std::size_t>(config.keep_first, tokens.size());
    const std::size_t most = tokens.size() - keep, least = tokens.size() + n - kContext;
    if (least > most) return LLMC_ERROR_CONTEXT_FULL;
    const std::size_t wanted = config.slide_tokens != 0 ? config.slide_tokens : (most + 1) / 2;
    const std::size_t count = std::max(std::min(wanted, most), least);
    if (embeddings_after(keep + count)) return LLMC_ERROR_EMBEDDINGS;
    drop(keep, count);
    return LLMC_OK;
  }
  /// What a saved state depends on; floats by their bits.
  auto saved() const {
    std::vector<std::uint32_t> bits;
    for (const float state : mus) bits.push_back(std::bit_cast<std::uint32_t>(state));
    return std::tuple(tokens, bits, logits, positions);
  }
};

struct Saved {
  std::vector<unsigned char> bytes;
  Plain plain;
};

/// What the sequence draws next; `guide`: the sequence that leads it, if one does.
inline core::Choice plain_choice(const Plain& plain, const Plain* guide) {
  std::vector<float> logits = plain_logits(plain.tokens, plain.positions), guiding;
  const auto best_of = [](const std::vector<float>& of) {
    return static_cast<std::uint32_t>(std::max_element(of.begin(), of.end()) - of.begin());
  };
  if (guide != nullptr) guiding = plain_logits(guide->tokens, guide->positions);
  Tokens ids = ids_of(plain.tokens);
  ids.resize(kContext + 1);
  unsigned char* block = reinterpret_cast<unsigned char*>(ids.data());
  const core::TokenHistory history(&block, kContext + 1,
                                   static_cast<std::uint32_t>(plain.tokens.size()));
  std::vector<core::Candidate> room(kVocab);
  core::Choice choice{-1, 0.0f};
  core::sample_token({.logits = logits.data(),
                      .vocab = kVocab,
                      .best = best_of(logits),
                      .history = history,
                      .sampling = plain.sampling,
                      .guide = guide != nullptr ? guiding.data() : nullptr,
                      .guide_best = guide != nullptr ? best_of(guiding) : 0,
                      .guidance = guide != nullptr ? plain.guide->scale : 1.0f,
                      .mu = plain.mu()},
                     room.data(), &choice);
  return choice;
}

}  // namespace llmc::fake
