#include "session.h"

#include "config.h"
#include "message.h"

namespace llmc::core {
namespace {

void serial_for(void*, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) fn(arg, i);
}

/// Marks the session as inside a call for as long as it lives.
class Busy {
 public:
  explicit Busy(llmc_session& session) : session_(session) { session_.busy = true; }
  ~Busy() { session_.busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  llmc_session& session_;
};

bool cancelled(const llmc_session& session) {
  return session.config.cancel != nullptr && session.config.cancel(session.config.cancel_user) != 0;
}

/// Computes logits of a row of the last forward, unless run.logits shows them already.
void show_row(llmc_session& session, uint32_t row) {
  if (session.logits_row == row) return;
  session.best = session.model->head(&session.run, row);
  session.logits_row = row;
}

/// Brings the last token's logits back where llmc_logits_at showed another's.
void show_last(llmc_session& session) {
  if (session.last_chunk > 0) show_row(session, session.last_chunk - 1);
}

llmc_status check_tokens(const llmc_session& session, const int32_t* tokens, size_t n) {
  const uint32_t vocab = session.model->vocab;
  for (size_t i = 0; i < n; ++i) {
    if (tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < vocab) continue;
    Message()
        .text("token ")
        .signed_number(tokens[i])
        .text(" at index ")
        .number(i)
        .text(" is outside the vocabulary of ")
        .number(vocab)
        .send(session.config, LLMC_LOG_ERROR);
    return LLMC_ERROR_TOKEN;
  }
  return LLMC_OK;
}

/// Runs `count` tokens and, when all workers are done, moves the cache's position.
void forward(llmc_session& session, const int32_t* tokens, uint32_t count) {
  session.cache.reserve(count);
  session.run.tokens = tokens;
  session.run.count = count;
  session.run.position = session.cache.position();
  session.last_chunk = 0;
  session.model->forward(&session.run);
  session.cache.commit(count);
  session.last_chunk = count;
}

llmc_status append_all(llmc_session& session, const int32_t* tokens, size_t n, size_t& done) {
  if (n == 0) return LLMC_OK;
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  if (const llmc_status bad = check_tokens(session, tokens, n)) return bad;
  if (n > session.cache.room()) return LLMC_ERROR_CONTEXT_FULL;
  const uint32_t start = session.cache.position();
  show_last(session);  // a rollback must find them: the rows they come from will be overwritten
  while (done < n) {
    if (cancelled(session)) {
      session.cache.truncate(start);
      if (done > 0) session.last_chunk = 0;
      done = 0;
      return LLMC_ERROR_CANCELLED;
    }
    const size_t left = n - done;
    const uint32_t count = left < session.chunk ? static_cast<uint32_t>(left) : session.chunk;
    forward(session, tokens + done, count);
    done += count;
  }
  const uint32_t last = session.last_chunk - 1;
  session.best = session.model->head(&session.run, last);
  session.logits_row = last;
  session.has_logits = true;
  session.run.tokens = nullptr;  // the caller's memory: not ours after this call
  return LLMC_OK;
}

llmc_status sample(llmc_session& session, int32_t& token) {
  if (!session.has_logits) return LLMC_ERROR_NO_LOGITS;
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  show_last(session);
  return sample_token(session.run.logits, session.model->vocab, session.best,
                      session.config.sampling, session.cache.position(), session.candidates,
                      &token);
}

}  // namespace
}  // namespace llmc::core

using llmc::core::Busy;

extern "C" {

llmc_status llmc_prefill(llmc_session* session, const int32_t* tokens, size_t n, size_t* done) {
  size_t own_count = 0;
  size_t& count = done != nullptr ? *done : own_count;
  count = 0;
  if (session == nullptr || (tokens == nullptr && n > 0)) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const Busy busy(*session);
  return llmc::core::append_all(*session, tokens, n, count);
}

llmc_status llmc_append(llmc_session* session, int32_t token) {
  return llmc_prefill(session, &token, 1, nullptr);
}

llmc_status llmc_sample(llmc_session* session, int32_t* token) {
  if (session == nullptr || token == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const Busy busy(*session);
  return llmc::core::sample(*session, *token);
}

llmc_status llmc_step(llmc_session* session, int32_t* token) {
  if (session == nullptr || token == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (session->has_logits && session->cache.room() == 0) return LLMC_ERROR_CONTEXT_FULL;
  const Busy busy(*session);
  int32_t next = 0;
  if (const llmc_status bad = llmc::core::sample(*session, next)) return bad;
  size_t done = 0;
  if (const llmc_status bad = llmc::core::append_all(*session, &next, 1, done)) return bad;
  *token = next;
  return LLMC_OK;
}

llmc_status llmc_set_sampling(llmc_session* session, const llmc_sampling* sampling) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_sampling wanted = sampling != nullptr ? *sampling : llmc_sampling{};
  if (const llmc_status bad = llmc::core::check_sampling(wanted)) return bad;
  session->config.sampling = wanted;
  return LLMC_OK;
}

const float* llmc_logits(llmc_session* session) {
  if (session == nullptr || session->busy || !session->has_logits) return nullptr;
  const Busy busy(*session);
  llmc::core::show_last(*session);
  return session->run.logits;
}

const float* llmc_logits_at(llmc_session* session, size_t row) {
  if (session == nullptr || session->busy || row >= session->last_chunk) return nullptr;
  const Busy busy(*session);
  llmc::core::show_row(*session, static_cast<uint32_t>(row));
  return session->run.logits;
}

size_t llmc_last_chunk(const llmc_session* session) {
  return session == nullptr ? 0 : session->last_chunk;
}
size_t llmc_position(const llmc_session* session) {
  return session == nullptr ? 0 : session->cache.position();
}
size_t llmc_context_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->ctx;
}
size_t llmc_chunk_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->chunk;
}
size_t llmc_vocabulary_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->vocab;
}
size_t llmc_thread_count(const llmc_session* session) {
  return session == nullptr ? 0 : session->run.threads;
}

llmc_status llmc_rewind(llmc_session* session, size_t position) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (position > session->cache.position()) return LLMC_ERROR_POSITION;
  if (position == session->cache.position()) return LLMC_OK;
  session->cache.truncate(static_cast<uint32_t>(position));
  session->last_chunk = 0;
  session->has_logits = false;
  return LLMC_OK;
}

llmc_status llmc_reset(llmc_session* session) {
  return llmc_rewind(session, 0);
}

llmc_status llmc_session_init(const llmc_model* model, void* arena, size_t bytes,
                              const llmc_config* given, llmc_session** result) {
  using namespace llmc::core;
  if (result == nullptr) return LLMC_ERROR_ARGUMENT;
  *result = nullptr;
  if (model == nullptr || arena == nullptr) return LLMC_ERROR_ARGUMENT;
  llmc_config config;
  if (const llmc_status bad = read_config(given, &config)) return bad;
  if (const llmc_status bad = check_model(model)) return bad;
  if (const llmc_status bad = check_sampling(config.sampling)) return bad;
  if (model->cpu_supported != nullptr && model->cpu_supported() == 0) {
    Message()
        .text("this CPU lacks instructions of the target ")
        .text(model->target != nullptr ? model->target : "the model was compiled for")
        .send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_CPU;
  }
  if (!float_mode_is_default()) {
    Message().text(llmc_status_text(LLMC_ERROR_FLOAT_MODE)).send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_FLOAT_MODE;
  }
  if (reinterpret_cast<uintptr_t>(arena) % LLMC_ALIGNMENT != 0) {
    Message().text("the arena must be aligned to 64 bytes").send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_ARENA_ALIGNMENT;
  }
  if (bytes < model->arena_bytes) {
    Message()
        .text("the arena has ")
        .number(bytes)
        .text(" bytes; this model needs ")
        .number(model->arena_bytes)
        .send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_ARENA_SMALL;
  }
  uint32_t threads = config.threads;
  if (threads == 0) threads = config.parallel_for != nullptr ? model->threads_max : 1;
  if (threads > model->threads_max) {
    Message()
        .number(threads)
        .text(" threads; this model was compiled for at most ")
        .number(model->threads_max)
        .send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_THREADS;
  }
  const unsigned char* weights = nullptr;
  if (const llmc_status bad = find_weights(*model, config, &weights)) return bad;

  const llmc_arena_layout at = llmc_arena_layout_of_model(model);
  unsigned char* base = static_cast<unsigned char*>(arena);
  llmc_session* session = reinterpret_cast<llmc_session*>(base);
  __builtin_memset(base, 0, sizeof(llmc_session));
  session->model = model;
  session->config = config;
  const bool whole_chunks = config.chunk == 0 || config.chunk > model->chunk;
  session->chunk = whole_chunks ? model->chunk : config.chunk;
  session->candidates = reinterpret_cast<Candidate*>(base + at.candidates);
  session->cache.init(reinterpret_cast<uint32_t*>(base + at.block_table),
                      reinterpret_cast<uint32_t*>(base + at.free_blocks),
                      static_cast<uint32_t>(at.blocks), model->kv_block, model->ctx);
  llmc_run& run = session->run;
  run.block_table = session->cache.table();
  run.kv_pool = base + at.kv_pool;
  run.scratch = base + at.scratch;
  run.weights = weights;
  run.logits = reinterpret_cast<float*>(base + at.logits);
  run.threads = threads;
  run.parallel_for = config.parallel_for != nullptr ? config.parallel_for : serial_for;
  run.user = config.parallel_user;
  run.uneven = config.cores == LLMC_CORES_OF_TARGET ? model->uneven_cores
                                                    : config.cores == LLMC_CORES_UNEVEN;
  *result = session;
  return LLMC_OK;
}

}  // extern "C"
