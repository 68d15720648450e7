#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "llmc/arena.h"
#include "llmc/embeddings.h"
#include "llmc/llmc.h"
#include "llmc/model.h"

/// A model small enough to reason about: the K and V of a token is a hash of it and its position, a
/// hidden row is a hash over all slots it may see, and logits come from that hash. Any slot lost,
/// misplaced or read too early changes every later logit.
namespace llmc::fake {

constexpr std::uint32_t kVocab = 50;
constexpr std::uint32_t kContext = 45;  // not a whole number of blocks
constexpr std::uint32_t kChunk = 7;
constexpr std::uint32_t kBlock = 8;
constexpr std::uint32_t kThreadsMax = 4;
constexpr std::uint32_t kLanes = 3;  // the work that the worker slots divide
constexpr std::uint32_t kWidth = 2;  // of an embedding; the row of a token has its id as the sum

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0xD1B54A32D192ED03u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}

/// Numbers of a model that differ between tests.
struct Sizes {
  std::uint32_t sequences = 1, batch = 1;
  std::uint32_t pool = 0;     // 0: what all sequences can need
  bool contiguous = false;    // one block for a whole context
  std::uint32_t source = 0;   // maximum tokens of a source; the model then has an encoder
  std::uint32_t sources = 1;  // with an encoder: number of sources
  bool features = false;      // the encoder reads features, at least two frames
  bool recurrent = false;     // rows also depend on a hash of all tokens, a state of the sequence
  bool positions = false;     // K and V also depend on kPositionAxes positions of the token
};
constexpr std::uint32_t kPositionAxes = 2;
using Positions = std::array<std::int32_t, kPositionAxes>;

/// The sum of the token's row, for a token without one its id.
inline std::uint64_t value_of(const llmc_run& run, std::uint32_t row) {
  if (run.embeddings == nullptr) return static_cast<std::uint64_t>(run.tokens[row]);
  if (run.tokens[row] != -1) std::abort();
  return static_cast<std::uint64_t>(run.embeddings[row * kWidth] +
                                    run.embeddings[row * kWidth + 1]);
}

/// The place of a token, with its positions if it has any.
inline std::uint64_t place_of(std::uint64_t place, const Positions* positions) {
  if (positions == nullptr) return place;
  for (const std::int32_t position : *positions)
    place = mix(place, static_cast<std::uint64_t>(position));
  return place;
}
inline std::uint64_t place_of(const llmc_run& run, const llmc_segment& segment, std::uint32_t row) {
  const std::uint32_t after = row - segment.row;
  Positions positions;
  for (std::uint32_t i = 0; i < kPositionAxes; ++i)
    positions[i] = static_cast<std::int32_t>(segment.rotary_position) +
                   (run.positions == nullptr ? static_cast<std::int32_t>(after)
                                             : run.positions[row * kPositionAxes + i]);
  return place_of(segment.position + after, &positions);
}

/// The rows of embeddings with these sums.
inline std::vector<float> rows_of(const std::vector<std::int32_t>& values) {
  std::vector<float> rows;
  for (const std::int32_t value : values) {
    rows.push_back(static_cast<float>(value / 3));
    rows.push_back(static_cast<float>(value - value / 3));
  }
  return rows;
}

/// Appends the rows of embeddings with these sums, at `positions` unless it is empty.
inline llmc_status append_rows(llmc_session* session, const std::vector<std::int32_t>& values,
                               const std::vector<Positions>& positions = {},
                               std::size_t* done = nullptr) {
  const std::vector<float> rows = rows_of(values);
  if (positions.empty()) return llmc_append_embeddings(session, rows.data(), values.size(), done);
  return llmc_append_embeddings_at(session, rows.data(), positions[0].data(), values.size(), done);
}

template <std::uint32_t block_tokens>
std::uint64_t* slot(const llmc_segment& segment, std::uint32_t position) {
  unsigned char* block =
      segment.blocks[position / block_tokens] + LLMC_KV_TOKENS_BYTES(block_tokens);
  return reinterpret_cast<std::uint64_t*>(block) + position % block_tokens * kLanes;
}

inline std::uint64_t* hidden(const llmc_run& run, std::uint32_t row) {
  return reinterpret_cast<std::uint64_t*>(run.scratch) + std::size_t{row} * kLanes;
}

/// f(segment, row) for the rows of a run that `first`, first + step, … name.
template <class F>
void for_rows(const llmc_run& run, std::uint32_t first, std::uint32_t step, F f) {
  for (std::uint32_t i = 0; i < run.segment_count; ++i) {
    const llmc_segment& s = run.segments[i];
    for (std::uint32_t t = s.row; t < s.row + s.rows; ++t)
      if (t % step == first) f(s, t);
  }
}

template <std::uint32_t block_tokens, bool positions = false>
void forward(const llmc_run* run) {
  run->parallel_for(
      run->user,
      [](void* arg, std::uint32_t worker) {
        const llmc_run& r = *static_cast<const llmc_run*>(arg);
        for (std::uint32_t lane = worker; lane < kLanes; lane += r.threads) {
          for_rows(r, 0, 1, [&](const llmc_segment& s, std::uint32_t t) {
            const std::uint32_t position = s.position + t - s.row;
            const std::uint64_t place = positions ? place_of(r, s, t) : position;
            slot<block_tokens>(s, position)[lane] = mix(value_of(r, t) << 8 | lane, place);
            if (s.state == nullptr) return;
            auto& state = reinterpret_cast<std::uint64_t*>(s.state)[lane];
            state = mix(state, value_of(r, t));
            hidden(r, t)[lane] = state;
          });
        }
      },
      const_cast<llmc_run*>(run), run->threads);
  run->parallel_for(
      run->user,
      [](void* arg, std::uint32_t worker) {
        const llmc_run& r = *static_cast<const llmc_run*>(arg);
        for_rows(r, worker, r.threads, [&](const llmc_segment& s, std::uint32_t t) {
          for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
            std::uint64_t sum = r.weights[0];
            if (s.state != nullptr) sum = mix(sum, hidden(r, t)[lane]);
            for (std::uint32_t i = 0; i < s.source_rows; ++i)
              sum =
                  mix(sum, static_cast<std::uint64_t>(reinterpret_cast<const float*>(s.source)[i]));
            for (std::uint32_t p = 0; p <= s.position + t - s.row; ++p)
              sum = mix(sum, slot<block_tokens>(s, p)[lane]);
            hidden(r, t)[lane] = sum;
          }
        });
      },
      const_cast<llmc_run*>(run), run->threads);
}

inline void head(const llmc_run*, const float* rows, std::uint32_t count, float* logits,
                 std::uint32_t* best) {
  for (std::uint32_t r = 0; r < count; ++r) {
    const auto* row = reinterpret_cast<const std::uint64_t*>(rows) + std::size_t{r} * kLanes;
    float* const of_row = logits + std::size_t{r} * kVocab;
    for (std::uint32_t i = 0; i < kVocab; ++i) {
      std::uint64_t sum = i;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) sum = mix(sum, row[lane]);
      of_row[i] = static_cast<float>(sum >> 40) / 2097152.0f - 4.0f;
    }
    best[r] = static_cast<std::uint32_t>(std::max_element(of_row, of_row + kVocab) - of_row);
  }
}

/// What head stores in best; the number of computed logits depends on the row.
inline std::uint32_t choose(const llmc_run* run, const float* row, float* room, float* logit,
                            std::uint32_t* computed) {
  std::uint32_t best = 0;
  head(run, row, 1, room, &best);
  *logit = room[best];
  std::fill_n(room, kVocab, __builtin_nanf(""));  // no logits of anybody
  *computed = best % 3 == 0 ? kVocab : 1;
  return best;
}

/// The state of a source is its ids as floats. Ids have the vocabulary of the decoder.
inline std::uint32_t encode(const llmc_run*, const void* input, std::uint32_t n,
                            unsigned char* state) {
  float* const source = reinterpret_cast<float*>(state);
  const auto* const ids = static_cast<const std::int32_t*>(input);
  for (std::uint32_t i = 0; i < n; ++i) source[i] = static_cast<float>(ids[i]);
  return n;
}

/// The state of features is the sum of each pair of frames of kSourceWidth features. Fails if the
/// first one is negative.
constexpr std::uint32_t kSourceWidth = 3;
inline std::uint32_t encode_features(const llmc_run*, const void* input, std::uint32_t n,
                                     unsigned char* state) {
  float* const source = reinterpret_cast<float*>(state);
  const auto* const features = static_cast<const float*>(input);
  if (features[0] < 0) return 0;
  for (std::uint32_t i = 0; i < n / 2; ++i)
    source[i] = std::accumulate(features + 2 * i * kSourceWidth,
                                features + 2 * (i + 1) * kSourceWidth, 0.0f);
  return n / 2;
}

/// In a saved state the lanes are in reverse order.
template <std::uint32_t block_tokens>
void kv_save(const unsigned char* block, std::uint32_t first, std::uint32_t count,
             unsigned char* to) {
  unsigned char* address = const_cast<unsigned char*>(block);
  const llmc_segment segment{&address, 0, 0, 0, 0, nullptr, nullptr, 0, 0};
  for (std::uint32_t i = 0; i < count * kLanes; ++i)
    std::memcpy(to + i * 8,
                slot<block_tokens>(segment, first + i / kLanes) + (kLanes - 1 - i % kLanes), 8);
}
template <std::uint32_t block_tokens>
void kv_load(unsigned char* block, std::uint32_t first, std::uint32_t count,
             const unsigned char* from) {
  const llmc_segment segment{&block, 0, 0, 0, 0, nullptr, nullptr, 0, 0};
  for (std::uint32_t i = 0; i < count * kLanes; ++i)
    std::memcpy(slot<block_tokens>(segment, first + i / kLanes) + (kLanes - 1 - i % kLanes),
                from + i * 8, 8);
}

alignas(64) inline const std::array<unsigned char, 64> kWeights{42};

inline llmc_model model(const Sizes& sizes = {}) {
  constexpr std::uint32_t kWhole = (kContext + 7) / 8 * 8;
  llmc_model m{};
  m.abi = LLMC_MODEL_ABI;
  m.size = sizeof(llmc_model);
  m.name = "fake";
  m.target = "none";
  m.vocab = kVocab;
  m.hidden = kLanes * 2;
  m.ctx = kContext;
  m.sequences = sizes.sequences;
  m.batch = sizes.batch;
  m.chunk = kChunk;
  m.kv_block = sizes.contiguous ? kWhole : kBlock;
  m.pool_blocks =
      sizes.pool != 0 ? sizes.pool : sizes.sequences * ((kContext + m.kv_block - 1) / m.kv_block);
  m.threads_max = kThreadsMax;
  m.weights_bytes = kWeights.size();
  m.weights_hash = 0x1234;
  m.program_hash = 0x5678;
  m.in_flight = 1;
  m.scratch_bytes = (kChunk * kLanes * 8 + 63) / 64 * 64;
  m.kv_token_bytes = kLanes * 8;
  m.kv_block_bytes = (LLMC_KV_TOKENS_BYTES(m.kv_block) + m.kv_block * kLanes * 8 + 63) / 64 * 64;
  m.source_min = sizes.source == 0 ? 0 : sizes.features ? 2 : 1;
  m.source_max = sizes.source;
  m.source_width = sizes.features ? kSourceWidth : 0;
  m.source_vocab = sizes.source == 0 || sizes.features ? 0 : kVocab;
  m.sources = sizes.source == 0 ? 0 : sizes.sources;
  m.embedding_width = kWidth;
  m.source_bytes = (sizes.source * sizeof(float) + 63) / 64 * 64;
  m.state_bytes = sizes.recurrent ? 64 : 0;
  m.encode = sizes.source == 0 ? nullptr : sizes.features ? encode_features : encode;
  m.weights = kWeights.data();
  m.position_axes = sizes.positions ? kPositionAxes : 0;
  m.forward = sizes.contiguous  ? sizes.positions ? forward<kWhole, true> : forward<kWhole, false>
               : sizes.positions ? forward<kBlock, true>
                                : forward<kBlock, false>;
  m.head = head;
  m.kv_save = sizes.contiguous ? kv_save<kWhole> : kv_save<kBlock>;
  m.kv_load = sizes.contiguous ? kv_load<kWhole> : kv_load<kBlock>;
  m.arena_bytes = llmc_arena_layout_of_model(&m).total;
  return m;
}

inline llmc_config config() {
  llmc_config c{};
  c.size = sizeof c;
  return c;
}

/// Aligned memory full of NaN bits, followed by a guard that must not change.
class Arena {
 public:
  explicit Arena(std::size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes + 191) / 64 * 64))) {
    std::fill(data(), data() + (bytes + 191) / 64 * 64, 0xFF);
  }
  unsigned char* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }
  bool guard_intact() const {
    for (std::size_t i = bytes_; i < bytes_ + 64; ++i)
      if (memory_.get()[i] != 0xFF) return false;
    return true;
  }

 private:
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<unsigned char, Free> memory_;
};

/// The fake model in an arena of exactly the size it asks for.
struct Session {
  explicit Session(llmc_config c = config(), llmc_model m = model())
      : description(std::make_unique<llmc_model>(m)), arena(m.arena_bytes) {
    status = llmc_session_init(description.get(), arena.data(), arena.size(), &c, &session);
  }
  operator llmc_session*() const { return session; }

  std::unique_ptr<llmc_model> description;
  Arena arena;
  llmc_session* session = nullptr;
  llmc_status status;
};

inline std::uint64_t hash_logits(const float* logits) {
  if (logits == nullptr) return 0;
  std::uint64_t sum = 1;
  for (std::uint32_t i = 0; i < kVocab; ++i)
    sum = mix(sum, std::bit_cast<std::uint32_t>(logits[i]));
  return sum;
}

inline std::vector<std::int32_t> prompt(std::size_t n) {
  std::vector<std::int32_t> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<std::int32_t>(mix(i, 7) % kVocab);
  return tokens;
}

}  // namespace llmc::fake
