#pragma once

#include <stdint.h>

/// What the time of a model's stages is counted as (`llmc bench --layers`).
namespace llmc {

/// kQkv, kGateUp, … with the norm of their input; kHead with its own; kRest: embedding, angles,
/// and what the core does between the stages.
enum class Part : uint32_t { kQkv, kAttention, kAttentionOut, kGateUp, kDown, kHead, kRest };
inline constexpr uint32_t kParts = 7;

/// The variable llmc_stage_hook of a model that is compiled with -DLLMC_STAGE_TIMES: `end`, unless
/// null, is called on the session's thread whenever a stage of a part has ended.
struct StageHook {
  void (*end)(void* user, uint32_t part);
  void* user;
};

}  // namespace llmc
