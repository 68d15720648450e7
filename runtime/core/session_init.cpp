#include "config.h"
#include "llmc/device.h"
#include "message.h"
#include "session.h"

namespace llmc::core {
namespace {

void serial_for(void*, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) fn(arg, i);
}

/// Checks the CPU, the thread's floating-point mode, the arena and the number of threads.
llmc_status check_environment(const llmc_model& model, const void* arena, size_t bytes,
                              const llmc_config& config) {
  if (model.cpu_supported != nullptr && model.cpu_supported() == 0) {
    Message()
        .text("this CPU lacks instructions of the target ")
        .text(model.target != nullptr ? model.target : "the model was compiled for")
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
  if (bytes < model.arena_bytes) {
    Message()
        .text("the arena has ")
        .number(bytes)
        .text(" bytes; this model needs ")
        .number(model.arena_bytes)
        .send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_ARENA_SMALL;
  }
  if (config.threads > model.threads_max) {
    Message()
        .number(config.threads)
        .text(" threads; this model was compiled for at most ")
        .number(model.threads_max)
        .send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_THREADS;
  }
  return LLMC_OK;
}

/// Places all parts of the session in the arena.
llmc_session* place(const llmc_model& model, unsigned char* base) {
  const llmc_arena_layout at = llmc_arena_layout_of_model(&model);
  llmc_session* const session = reinterpret_cast<llmc_session*>(base);
  __builtin_memset(base, 0, sizeof(llmc_session));
  session->model = &model;
  session->segments = reinterpret_cast<llmc_segment*>(base + at.segments);
  session->candidates = reinterpret_cast<Candidate*>(base + at.candidates);
  session->sequences = base + at.sequences;
  session->sources = reinterpret_cast<Source*>(base + at.source_notes);
  session->source_states = base + at.sources;
  session->logits = reinterpret_cast<float*>(base + at.logits);
  session->generations = reinterpret_cast<uint64_t*>(base + at.logits_notes);
  session->best = reinterpret_cast<uint32_t*>(session->generations + model.batch);
  session->tokens = reinterpret_cast<int32_t*>(base + at.tokens);
  session->stepped =
      reinterpret_cast<uint32_t*>(session->tokens + uint64_t{model.ctx} + model.batch);
  for (uint32_t i = 0; i < model.batch; ++i) session->generations[i] = 0;
  for (uint32_t i = 0; i < model.sources; ++i) session->sources[i] = {};
  session->cache.init({.pool = base + at.kv_pool,
                       .users = reinterpret_cast<uint32_t*>(base + at.block_users),
                       .free = reinterpret_cast<uint32_t*>(base + at.free_blocks),
                       .block_bytes = model.kv_block_bytes,
                       .pool_blocks = model.pool_blocks,
                       .block_tokens = model.kv_block,
                       .context = model.ctx,
                       .has_shifts = model.position_axes > 0});
  for (uint32_t i = 0; i < model.sequences; ++i) {
    Sequence& sequence = session->sequence(i);
    __builtin_memset(&sequence, 0, sizeof sequence);
    sequence.cached.blocks =
        reinterpret_cast<unsigned char**>(base + at.block_tables) + i * at.blocks_of_sequence;
    sequence.state = model.state_bytes == 0 ? nullptr : base + at.states + i * model.state_bytes;
    sequence.last_row = reinterpret_cast<float*>(base + at.last_rows + i * at.last_row_bytes);
  }
  session->run.segments = session->segments;
  session->run.scratch = session->scratch = base + at.scratch;
  return session;
}

}  // namespace
}  // namespace llmc::core

extern "C" llmc_status llmc_session_init(const llmc_model* model, void* arena, size_t bytes,
                                         const llmc_config* given, llmc_session** result) {
  using namespace llmc::core;
  if (result == nullptr) return LLMC_ERROR_ARGUMENT;
  *result = nullptr;
  if (model == nullptr || arena == nullptr) return LLMC_ERROR_ARGUMENT;
  llmc_config config;
  if (const llmc_status bad = read_config(given, &config)) return bad;
  if (const llmc_status bad = check_model(model)) return bad;
  if (const llmc_status bad = check_sampling(config.sampling)) return bad;
  if (const llmc_status bad = check_environment(*model, arena, bytes, config)) return bad;
  if (const llmc_status bad = check_device(*model, config)) return bad;
  const unsigned char* weights = nullptr;
  if (const llmc_status bad = find_weights(*model, config, &weights)) return bad;

  llmc_session* const session = place(*model, static_cast<unsigned char*>(arena));
  session->config = config;
  const bool whole_chunks = config.chunk == 0 || config.chunk > model->chunk;
  session->chunk = whole_chunks ? model->chunk : config.chunk;
  open_sequence(*session, session->sequence(0));
  llmc_run& run = session->run;
  run.weights = weights;
  run.threads = config.threads;
  if (run.threads == 0) run.threads = config.parallel_for != nullptr ? model->threads_max : 1;
  run.parallel_for = config.parallel_for != nullptr ? config.parallel_for : serial_for;
  run.user = config.parallel_user;
  run.uneven = config.cores == LLMC_CORES_OF_TARGET ? model->uneven_cores
                                                    : config.cores == LLMC_CORES_UNEVEN;
  if (config.device != nullptr) {
    const llmc_device& device = *config.device;
    const llmc_status bad = device.prepare(device.user, model, weights, session->scratch,
                                           model->scratch_bytes * model->in_flight);
    if (bad != LLMC_OK) {
      Message()
          .text("the device ")
          .text(device.name)
          .text(" cannot take the model")
          .because(device.message != nullptr ? device.message(device.user) : nullptr)
          .send(config, LLMC_LOG_ERROR);
      return bad;
    }
  }
  *result = session;
  return LLMC_OK;
}
