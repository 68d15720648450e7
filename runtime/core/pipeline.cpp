#include "pipeline.h"

#include "llmc/device.h"
#include "message.h"

namespace llmc::core {

ChunkPipeline::ChunkPipeline(llmc_session& session, const ChunkCall& call)
    : session_(session), call_(call), in_flight_(session.model->in_flight) {}

ChunkPipeline::~ChunkPipeline() {
  if (count_ > 0 && !session_.device_failed)
    session_.config.device->cancel(session_.config.device->user);
}

/// Starts the next chunk, in the scratch buffer that has been free for the longest time.
void ChunkPipeline::start_chunk() {
  const llmc_model& model = *session_.model;
  const uint32_t slot = (oldest_ + count_) % in_flight_;
  ActiveChunk& flight = flights_[slot];
  const size_t left = call_.n - started_;
  const uint32_t rows = left < session_.chunk ? static_cast<uint32_t>(left) : session_.chunk;
  flight.run = session_.run;
  flight.run.scratch = session_.scratch + slot * model.scratch_bytes;
  flight.run.count = rows;
  flight.run.segment_count = 1;
  flight.run.segments = &flight.segment;
  const Input& input = call_.input;
  if (started_ == 0) {
    session_.last_chunk = 0;
    session_.row_slot.generation = 0;
  }
  if (input.embeddings != nullptr) {
    static_assert(kNoToken == -1);
    if (started_ == 0) __builtin_memset(session_.tokens, 0xFF, rows * sizeof *session_.tokens);
    flight.run.tokens = session_.tokens;
    flight.run.embeddings = input.embeddings + started_ * model.embedding_width;
    if (input.positions != nullptr)
      flight.run.positions = input.positions + started_ * model.position_axes;
  } else {
    flight.run.tokens = input.tokens + started_;
    flight.run.embeddings = nullptr;
  }
  // Chunks before this one are in flight: their tokens are not committed yet.
  CachedTokens ahead = call_.sequence.cached;
  for (uint32_t i = 0; i < count_; ++i) session_.cache.commit(ahead, this->flight(i).run.count);
  session_.cache.note(ahead, flight.run.tokens, rows, call_.mu);
  flight.segment = segment_at(session_, call_.sequence, 0, rows, ahead.position,
                              ahead.position + static_cast<uint32_t>(left) - 1);
  note_shifts(session_, ahead, input, started_, flight.segment);
  flight.step = 0;
  flight.ticket = 0;
  started_ += rows;
  ++count_;
}

/// Waits at most `timeout_us` microseconds for a chunk's job, if it has one. Returns false if the
/// job is still running. If it failed, falls back to the CPU.
bool ChunkPipeline::wait(ActiveChunk& flight, uint32_t timeout_us) {
  if (flight.ticket == 0) return true;
  const llmc_device& device = *session_.config.device;
  const int state = device.wait(device.user, flight.ticket, timeout_us);
  if (state == LLMC_DEVICE_RUNNING) return false;
  flight.ticket = 0;
  if (state != LLMC_DEVICE_DONE) fall_back("failed");
  return true;
}

/// Cancels the device's jobs. The CPU then computes all chunks in flight again, and everything
/// after them.
void ChunkPipeline::fall_back(const char* reason) {
  const llmc_device& device = *session_.config.device;
  device.cancel(device.user);
  session_.device_failed = true;
  for (uint32_t i = 0; i < count_; ++i) {
    flight(i).step = 0;
    flight(i).ticket = 0;
  }
  Message()
      .text("the device ")
      .text(device.name)
      .text(" ")
      .text(reason)
      .text(", and prompts are computed on the CPU from now on")
      .because(device.message != nullptr ? device.message(device.user) : nullptr)
      .send(session_.config, LLMC_LOG_ERROR);
}

/// Runs the next steps of a chunk on the CPU, up to its next region. Submits that region, and the
/// regions directly after it, to the device. Returns whether anything was done.
bool ChunkPipeline::advance(uint32_t index) {
  const llmc_model& model = *session_.model;
  ActiveChunk& mine = flight(index);
  const auto may_run = [&](uint32_t step) {
    return step < model.steps && (index == 0 || flight(index - 1).step > step);
  };
  bool any = false;
  while (may_run(mine.step) && (model.step_regions[mine.step] == 0 || session_.device_failed)) {
    model.run_step(&mine.run, mine.step++);
    any = true;
  }
  if (session_.device_failed || mine.step == model.steps || model.step_regions[mine.step] == 0)
    return any;
  const uint32_t first = mine.step;
  while (mine.step < model.steps && model.step_regions[mine.step] != 0) ++mine.step;
  const llmc_device& device = *session_.config.device;
  const llmc_device_job job{&model, &mine.run, first, mine.step};
  mine.ticket = device.submit(device.user, &job);
  if (mine.ticket == 0) {
    fall_back("refused a job");
  } else {
    ++session_.device_jobs;
  }
  return true;
}

/// Waits until the device has finished its oldest job.
void ChunkPipeline::wait_for_next() {
  ActiveChunk* next = nullptr;
  for (uint32_t i = 0; i < count_; ++i) {
    ActiveChunk& candidate = flight(i);
    if (candidate.ticket != 0 && (next == nullptr || candidate.ticket < next->ticket))
      next = &candidate;
  }
  if (next == nullptr) return;  // the device has failed: the CPU runs the steps
  const uint64_t limit_us = uint64_t{session_.config.device_timeout_ms} * 1000;
  if (limit_us == 0) {
    while (!wait(*next, LLMC_DEVICE_NO_LIMIT)) continue;
    return;
  }
  constexpr uint32_t kMaxWait = LLMC_DEVICE_NO_LIMIT - 1;
  if (!wait(*next, limit_us < kMaxWait ? static_cast<uint32_t>(limit_us) : kMaxWait))
    fall_back("timed out");
}

uint32_t ChunkPipeline::next_chunk() {
  for (;;) {
    while (!full() && !session_.device_failed) start_chunk();
    if (count_ == 0) start_chunk();
    bool any = false;
    for (uint32_t i = 0; i < count_ && !any; ++i) any = wait(flight(i), 0) && advance(i);
    ActiveChunk& first = flight(0);
    if (first.ticket == 0 && first.step == session_.model->steps) break;
    if (!any) wait_for_next();
  }
  const uint32_t rows = flight(0).run.count;
  session_.run.scratch = flight(0).run.scratch;  // its rows are those of the last chunk
  session_.run.count = rows;
  commit(session_, call_.sequence, rows);
  session_.last_chunk = rows;
  oldest_ = (oldest_ + 1) % in_flight_;
  --count_;
  return rows;
}

}  // namespace llmc::core

extern "C" llmc_status llmc_run_in_flight(llmc_session* session, void* call) {
  using namespace llmc::core;
  auto& chunks = *static_cast<ChunkCall*>(call);
  ChunkPipeline pipeline(*session, chunks);
  return for_each_chunk(*session, chunks, [&] { return pipeline.next_chunk(); });
}

extern "C" uint64_t llmc_device_jobs(const llmc_session* session) {
  return session == nullptr ? 0 : session->device_jobs;
}

extern "C" llmc_status llmc_device_status(const llmc_session* session) {
  if (session == nullptr || session->config.device == nullptr) return LLMC_ERROR_ARGUMENT;
  return session->device_failed ? LLMC_ERROR_DEVICE : LLMC_OK;
}
