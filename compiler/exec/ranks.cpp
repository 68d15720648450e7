#include "compiler/exec/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/counted.h"
#include "llmc/model.h"

namespace llmc::exec {
namespace {

/// Header of a message with rows. Its size keeps the rows aligned. No rows follow if `status` is
/// not LLMC_OK.
struct alignas(64) RowsHeader {
  std::int32_t status = LLMC_OK;
  std::uint32_t count = 0;
  std::uint64_t tokens_hash = 0;  // detects ranks that were given different tokens
};

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int32_t token : tokens)
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x100000001b3;
  return hash;
}

/// Returns on all ranks whether all have equal values and `in_place` is true for all. Each rank
/// sends its value to rank 0, which replies with the result.
template <class Value>
bool agree(Ranks& ranks, const Value& mine, bool in_place = true) {
  struct Message {
    Value value;
    std::uint64_t in_place;
  };
  std::uint64_t fit = in_place ? 1 : 0;
  if (ranks.rank() > 0) {
    const Message message{mine, fit};
    ranks.send(0, std::as_bytes(std::span(&message, 1)));
    const std::span<const std::byte> answer = ranks.receive(0);
    LLMC_CHECK(answer.size() == sizeof fit);
    std::memcpy(&fit, answer.data(), sizeof fit);
    return fit != 0;
  }
  for (std::uint32_t rank = 1; rank < ranks.count(); ++rank) {
    const std::span<const std::byte> received = ranks.receive(rank);
    Message message;
    LLMC_CHECK(received.size() == sizeof message);
    std::memcpy(&message, received.data(), sizeof message);
    if (message.in_place == 0 || !(message.value == mine)) fit = 0;
  }
  for (std::uint32_t rank = 1; rank < ranks.count(); ++rank)
    ranks.send(rank, std::as_bytes(std::span(&fit, 1)));
  return fit != 0;
}

/// A session of the whole model on one of the ranks. The llmc_session* arguments of the functions
/// in `api` point to it.
struct RankSession {
  RankSession(SessionHandle own, Ranks& ranks, const ModelFacts& model, std::uint32_t chunk)
      : own(std::move(own)),
        ranks(ranks),
        model(model),
        chunk(chunk == 0 ? model.chunk : std::min(chunk, model.chunk)) {}

  const SessionHandle own;
  Ranks& ranks;
  const ModelFacts model;
  const std::uint32_t chunk;
  Api api = {};
  std::optional<Error> failure = {};
  std::uint32_t selected = 0;
  std::vector<float> zeros = {};
  std::vector<std::byte> rows = {};  // buffer for the message to send
  /// The sequences of the last step. At its end, the last rank samples the next token of each
  /// sequence in advance and sends it. The next step uses these tokens if no other call precedes
  /// it.
  std::vector<std::uint32_t> ahead = {};
  std::vector<std::vector<std::int32_t>> presampled = {};  // by group; only on the last rank

  ~RankSession() {
    // Do not communicate after an exception, because the other ranks may wait for this one.
    if (std::uncaught_exceptions() == 0) settle();
  }
  bool is_last() const { return ranks.is_last(); }

  /// Receives the rows of these tokens, runs them through the shard by `run`, and sends the
  /// resulting rows, or the status of a failure, to the next rank.
  template <class Run>
  llmc_status pass(std::span<const std::int32_t> tokens, const Run& run) {
    const float* in = nullptr;
    RowsHeader header{.count = static_cast<std::uint32_t>(tokens.size()),
                      .tokens_hash = hash_of(tokens)};
    const std::size_t bytes = tokens.size() * model.hidden * sizeof(float);
    if (ranks.rank() > 0) {
      const std::span<const std::byte> received = ranks.receive(ranks.rank() - 1);
      RowsHeader before;
      LLMC_CHECK(received.size() >= sizeof before);
      std::memcpy(&before, received.data(), sizeof before);
      header.status = before.status;
      if (before.count != header.count || before.tokens_hash != header.tokens_hash) {
        failure = usage_error("the ranks were given different tokens",
                              "give all of them the same options and files");
        header.status = LLMC_ERROR_ARGUMENT;
      }
      in = reinterpret_cast<const float*>(received.data() + sizeof before);
      LLMC_CHECK(header.status != LLMC_OK || received.size() == sizeof before + bytes);
    }
    rows.resize(sizeof header + bytes);
    float* const out = is_last() ? nullptr : reinterpret_cast<float*>(rows.data() + sizeof header);
    if (header.status == LLMC_OK) header.status = run(in, out);
    if (!is_last()) {
      std::memcpy(rows.data(), &header, sizeof header);
      ranks.send(ranks.rank() + 1,
                 std::span(rows).first(header.status == LLMC_OK ? rows.size() : sizeof header));
    }
    return static_cast<llmc_status>(header.status);
  }
  llmc_status append(std::span<const std::int32_t> tokens) {
    for (std::size_t first = 0; first < tokens.size(); first += chunk) {
      const auto part = tokens.subspan(first, std::min<std::size_t>(tokens.size() - first, chunk));
      const std::size_t more = tokens.size() - first - part.size();
      const llmc_status status = pass(part, [&](const float* in, float* out) {
        return own.api->forward_hidden(own.session, part.data(), in, part.size(), more, out);
      });
      if (status != LLMC_OK) return status;
    }
    return LLMC_OK;
  }
  llmc_status append(std::span<const std::uint32_t> sequences,
                     std::span<const std::int32_t> tokens) {
    return pass(tokens, [&](const float* in, float* out) {
      return own.api->forward_hidden_batch(own.session, sequences.data(), sequences.size(),
                                           tokens.data(), in, out);
    });
  }

  /// A status, followed by one token per sequence.
  using Sampled = std::vector<std::int32_t>;
  /// Samples on this rank, which must be the last, and sends the result to all other ranks.
  Sampled sample_here(std::span<const std::uint32_t> sequences) {
    Sampled sampled(1 + sequences.size());
    for (std::size_t i = 0; i < sequences.size() && sampled[0] == LLMC_OK; ++i) {
      sampled[0] = own.api->select(own.session, sequences[i]);
      if (sampled[0] == LLMC_OK) sampled[0] = own.api->sample(own.session, &sampled[1 + i]);
    }
    own.api->select(own.session, selected);
    for (std::uint32_t rank = 0; rank + 1 < ranks.count(); ++rank)
      ranks.send(rank, std::as_bytes(std::span(sampled)));
    return sampled;
  }
  Sampled sample(std::span<const std::uint32_t> sequences) {
    if (is_last()) return sample_here(sequences);
    const std::span<const std::byte> received = ranks.receive(ranks.count() - 1);
    LLMC_CHECK(received.size() == (1 + sequences.size()) * sizeof(std::int32_t));
    Sampled sampled(1 + sequences.size());
    std::memcpy(sampled.data(), received.data(), received.size());
    return sampled;
  }
  /// Divides the sequences into at most one group per rank, and calls f with each group. The groups
  /// pass through the ranks as in a pipeline, so that every rank works on one of them.
  template <class F>
  void for_each_group(std::span<const std::uint32_t> sequences, const F& f) {
    const std::size_t groups = std::min<std::size_t>(sequences.size(), ranks.count());
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t begin = sequences.size() * group / groups;
      const std::size_t end = sequences.size() * (group + 1) / groups;
      f(begin, sequences.subspan(begin, end - begin));
    }
  }
  /// Drops the tokens that were sampled in advance.
  void settle() {
    if (!is_last()) for_each_group(ahead, [&](std::size_t, auto members) { sample(members); });
    ahead.clear();
    presampled.clear();
  }
  /// Samples a token for each sequence and appends it. Then the last rank samples the tokens of the
  /// next step and sends them, so that the first rank need not wait for the other groups.
  llmc_status step(std::span<const std::uint32_t> sequences, std::int32_t* tokens) {
    if (!std::ranges::equal(ahead, sequences)) settle();
    std::vector<Sampled> known = std::exchange(presampled, {});
    // Sample for all groups before sampling in advance for any, because messages arrive in order.
    if (ahead.empty())
      for_each_group(sequences,
                     [&](std::size_t, auto members) { known.push_back(sample(members)); });
    ahead.assign(sequences.begin(), sequences.end());
    llmc_status status = LLMC_OK;
    std::size_t group = 0;
    for_each_group(sequences, [&](std::size_t begin, std::span<const std::uint32_t> members) {
      const Sampled sampled = group < known.size() ? known[group] : sample(members);
      ++group;
      auto bad = static_cast<llmc_status>(sampled[0]);
      const auto chosen = std::span(sampled).subspan(1);
      if (bad == LLMC_OK) bad = append(members, chosen);
      std::ranges::copy(chosen, tokens + begin);
      if (status == LLMC_OK) status = bad;
      if (is_last()) presampled.push_back(sample_here(members));
    });
    return status;
  }

  /// Returns `status`, the result of loading a state on this rank, or an error if loading failed on
  /// another rank or gave other tokens there.
  llmc_status agree_on_state(llmc_status status, const void* state, std::size_t bytes) {
    struct Loaded {
      std::uint64_t status = 0, tokens = 0, hash = 0;
      bool operator==(const Loaded&) const = default;
    };
    Loaded mine{.status = static_cast<std::uint64_t>(status)};
    llmc_state_header header;
    if (status == LLMC_OK && bytes >= sizeof header) {
      std::memcpy(&header, state, sizeof header);
      std::vector<std::int32_t> tokens(header.tokens);
      LLMC_CHECK(bytes - sizeof header >= tokens.size() * sizeof(std::int32_t));
      std::memcpy(tokens.data(), static_cast<const std::byte*>(state) + sizeof header,
                  tokens.size() * sizeof(std::int32_t));
      mine.tokens = tokens.size();
      mine.hash = hash_of(tokens);
    }
    if (agree(ranks, mine)) return status;
    if (status != LLMC_OK) return status;
    failure = usage_error("the ranks have states of different texts",
                          "give the files that one call of --save-state has written");
    return LLMC_ERROR_STATE;
  }

  const float* no_logits(std::size_t count) {
    if (own.api->position(own.session) == 0) return nullptr;
    zeros.resize(std::max(zeros.size(), count * model.vocab));
    return zeros.data();
  }
};

RankSession& session_of(llmc_session* session) {
  return *reinterpret_cast<RankSession*>(session);
}

/// A session function that calls the same function of this rank's shard.
template <auto Function>
struct Own;
template <class R, class... Arguments, R (*Api::*Function)(llmc_session*, Arguments...)>
struct Own<Function> {
  static R call(llmc_session* session, Arguments... arguments) {
    RankSession& s = session_of(session);
    s.settle();
    return (s.own.api->*Function)(s.own.session, arguments...);
  }
};
template <class R, class... Arguments, R (*Api::*Function)(const llmc_session*, Arguments...)>
struct Own<Function> {
  static R call(const llmc_session* session, Arguments... arguments) {
    const auto& s = *reinterpret_cast<const RankSession*>(session);
    return (s.own.api->*Function)(s.own.session, arguments...);
  }
};

template <auto... Functions>
void use_own(Api& api) {
  ((api.*Functions = Own<Functions>::call), ...);
}

void set_functions(Api& api) {
  // A shard's functions that run tokens without rows of the previous rank return LLMC_ERROR_SHARD.
  use_own<&Api::encode, &Api::encode_features, &Api::append_embeddings, &Api::append_embeddings_at,
          &Api::encode_image, &Api::slide, &Api::forward_hidden, &Api::forward_hidden_batch,
          &Api::device_status, &Api::device_jobs, &Api::set_sampling, &Api::set_logit_bias,
          &Api::set_dry_breakers, &Api::set_guidance, &Api::set_grammar, &Api::text_state,
          &Api::last_chunk, &Api::position, &Api::rewind, &Api::reset, &Api::state_bytes,
          &Api::state_save, &Api::new_sequence, &Api::fork, &Api::release, &Api::free_blocks>(api);
  api.logits_computed = nullptr;  // only the last rank knows
  api.select = [](llmc_session* session, std::uint32_t sequence) {
    RankSession& s = session_of(session);
    const llmc_status status = Own<&Api::select>::call(session, sequence);
    if (status == LLMC_OK) s.selected = sequence;
    return status;
  };
  api.state_load = [](llmc_session* session, const void* from, std::size_t bytes) {
    const llmc_status status = Own<&Api::state_load>::call(session, from, bytes);
    return session_of(session).agree_on_state(status, from, bytes);
  };
  api.prefill = [](llmc_session* session, const std::int32_t* tokens, std::size_t n, std::size_t*) {
    RankSession& s = session_of(session);
    s.settle();
    return s.append({tokens, n});
  };
  api.append = [](llmc_session* session, std::int32_t token) {
    return session_of(session).api.prefill(session, &token, 1, nullptr);
  };
  api.append_batch = [](llmc_session* session, const std::uint32_t* sequences, std::size_t n,
                        const std::int32_t* tokens) {
    RankSession& s = session_of(session);
    s.settle();
    return s.append({sequences, n}, {tokens, n});
  };
  api.sample = [](llmc_session* session, std::int32_t* token) {
    RankSession& s = session_of(session);
    s.settle();
    const RankSession::Sampled sampled = s.sample({&s.selected, 1});
    if (sampled[0] == LLMC_OK) *token = sampled[1];
    return static_cast<llmc_status>(sampled[0]);
  };
  api.step = [](llmc_session* session, std::int32_t* token) {
    RankSession& s = session_of(session);
    std::int32_t next = 0;
    llmc_status status = s.api.sample(session, &next);
    if (status == LLMC_OK) status = s.api.append(session, next);
    if (status == LLMC_OK) *token = next;
    return status;
  };
  api.step_batch = [](llmc_session* session, const std::uint32_t* sequences, std::size_t n,
                      std::int32_t* tokens) {
    return session_of(session).step({sequences, n}, tokens);
  };
  api.logits = [](llmc_session* session) {
    RankSession& s = session_of(session);
    s.settle();
    return s.is_last() ? s.own.api->logits(s.own.session) : s.no_logits(1);
  };
  api.logits_at = [](llmc_session* session, std::size_t row) {
    RankSession& s = session_of(session);
    s.settle();
    return s.is_last() ? s.own.api->logits_at(s.own.session, row) : s.no_logits(1);
  };
  api.logits_rows = [](llmc_session* session, std::size_t row, std::size_t rows) {
    RankSession& s = session_of(session);
    s.settle();
    return s.is_last() ? s.own.api->logits_rows(s.own.session, row, rows) : s.no_logits(rows);
  };
  api.logprob = [](llmc_session* session, std::int32_t token, float* logprob) {
    RankSession& s = session_of(session);
    s.settle();
    *logprob = 0;
    return s.is_last() ? s.own.api->logprob(s.own.session, token, logprob) : LLMC_OK;
  };
  api.candidates = [](llmc_session* session, int which, llmc_candidate* candidates, std::size_t n,
                      std::size_t* count) {
    RankSession& s = session_of(session);
    s.settle();
    std::fill_n(candidates, n, llmc_candidate{});
    *count = n;
    return s.is_last() ? s.own.api->candidates(s.own.session, which, candidates, n, count)
                       : LLMC_OK;
  };
  api.beams_init = [](void*, std::size_t, llmc_session*, const llmc_beam_options*, llmc_beams**) {
    return LLMC_ERROR_SHARD;
  };
}

}  // namespace

Status check_shards(Ranks& ranks, const ModelFacts& model, std::uint64_t source_hash) {
  if (model.shards != ranks.count())
    return usage_error(
        fmt::format("{} for a model of {} shards", counted(ranks.count(), "rank"), model.shards),
        fmt::format("mpirun -n {}", model.shards));
  struct Same {
    std::uint32_t vocab, hidden, ctx, chunk, sequences, batch, kv_heads, head_dim;
    std::uint64_t program_hash, source_hash;
    bool operator==(const Same&) const = default;
  };
  const Same mine{model.vocab, model.hidden,   model.ctx,      model.chunk,        model.sequences,
                  model.batch, model.kv_heads, model.head_dim, model.program_hash, source_hash};
  if (agree(ranks, mine, model.shard == ranks.rank())) return ok_status();
  return usage_error("the shards differ in their model or its options",
                     "compile all of them in one call of llmc compile --stages");
}

std::string broadcast_text(Ranks& ranks, std::string text) {
  if (ranks.rank() == 0) {
    for (std::uint32_t rank = 1; rank < ranks.count(); ++rank)
      ranks.send(rank, std::as_bytes(std::span(text)));
    return text;
  }
  const std::span<const std::byte> received = ranks.receive(0);
  return {reinterpret_cast<const char*>(received.data()), received.size()};
}

SessionHandle make_distributed_session(SessionHandle own, Ranks& ranks, const ModelFacts& model,
                                       std::uint32_t chunk) {
  auto session = std::make_shared<RankSession>(std::move(own), ranks, model, chunk);
  session->api = *session->own.api;
  set_functions(session->api);
  SessionHandle handle = session->own;
  handle.owner = session;
  handle.api = &session->api;
  handle.session = reinterpret_cast<llmc_session*>(session.get());
  handle.failure = &session->failure;
  handle.ranks = &ranks;
  return handle;
}

}  // namespace llmc::exec
