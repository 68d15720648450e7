#pragma once

#include "kv_cache.h"
#include "llmc/arena.h"
#include "llmc/llmc.h"
#include "llmc/model.h"
#include "sampler.h"

/// The session's fields, at the start of the arena.
struct llmc_session {
  const llmc_model* model;
  llmc_config config;  // callbacks and the sampling in force
  llmc_run run;        // of the last forward; what does not change between calls is set once
  llmc::core::KvCache cache;
  llmc::core::Candidate* candidates;
  uint32_t chunk;
  uint32_t last_chunk;  // rows of the last forward still in scratch; 0: none
  uint32_t logits_row;  // which of them run.logits shows
  uint32_t best;        // the first of the largest of run.logits
  bool has_logits;      // the logits after the last token are known or can be computed again
  bool busy;            // inside a call: callbacks must not come back
};
static_assert(sizeof(llmc_session) <= LLMC_SESSION_BYTES);
