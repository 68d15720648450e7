#pragma once

#include <stdint.h>

/// Categories in which the time of a model's stages is measured (`llmc bench --layers`).
namespace llmc {

/// kQkv, kGateUp, … include the norm of their input, and kHead its norm. kRest: embedding, angles,
/// and the core's work between stages.
enum class Part : uint32_t { kQkv, kAttention, kAttentionOut, kGateUp, kDown, kHead, kRest };
inline constexpr uint32_t kParts = 7;

/// The variable llmc_stage_hook of a model compiled with -DLLMC_STAGE_TIMES: `end`, unless null, is
/// called on the session's thread at the end of every stage with its category.
struct StageHook {
  void (*end)(void* user, uint32_t part);
  void* user;
};

}  // namespace llmc
