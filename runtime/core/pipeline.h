#pragma once

#include "forward.h"
#include "session.h"

/// Computes several chunks of a prompt at the same time, on the CPU and on an accelerator.
namespace llmc::core {

/// Runs the forward pass of a call's reserved tokens in chunks. Up to llmc_model::in_flight chunks
/// are in flight; each has a separate scratch buffer. While the device computes a region of one
/// chunk, the CPU computes steps of another one. The tokens of a chunk are committed when it and
/// all chunks before it are done.
///
/// If the device fails, refuses a job or takes longer than llmc_config::device_timeout_ms, all
/// chunks in flight and the rest of the session are computed on the CPU: running a chunk again
/// writes the same bits to the cache.
class ChunkPipeline {
 public:
  ChunkPipeline(llmc_session& session, const ChunkCall& call);
  /// Cancels all jobs of the device, if chunks are still in flight.
  ~ChunkPipeline();
  ChunkPipeline(const ChunkPipeline&) = delete;
  ChunkPipeline& operator=(const ChunkPipeline&) = delete;

  /// Runs until the oldest chunk is done, commits it, and returns its number of tokens. Must not be
  /// called after all tokens are done.
  uint32_t next_chunk();

 private:
  struct ActiveChunk {
    llmc_run run;
    llmc_segment segment;
    uint32_t step;    // next step to run
    uint64_t ticket;  // of its job on the device; 0: none
  };

  ActiveChunk& flight(uint32_t index) { return flights_[(oldest_ + index) % in_flight_]; }
  bool full() const { return count_ == in_flight_ || started_ == call_.n; }
  void start_chunk();
  bool advance(uint32_t index);
  bool wait(ActiveChunk& flight, uint32_t timeout_us);
  void wait_for_next();
  void fall_back(const char* reason);

  llmc_session& session_;
  const ChunkCall& call_;
  const uint32_t in_flight_;
  size_t started_ = 0;   // number of tokens of the chunks that are in flight or done
  uint32_t oldest_ = 0;  // index of the oldest chunk in flights_
  uint32_t count_ = 0;   // chunks in flight
  ActiveChunk flights_[LLMC_MAX_IN_FLIGHT];
};

}  // namespace llmc::core
