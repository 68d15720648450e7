#pragma once

#include <stdint.h>

/// Parts of a model. `llmc bench --layers` reports the time of stages by part.
namespace llmc {

/// The part to which a stage belongs. kQkv, kGateUp and kHead include the norm of their input.
/// kRest is the embedding, the rotary angles, and the core's work between stages.
enum class Part : uint32_t { kQkv, kAttention, kAttentionOut, kGateUp, kDown, kHead, kRest };
inline constexpr uint32_t kParts = 7;

/// Type of llmc_stage_hook, a variable of code that is compiled to measure its stages. `end`,
/// unless null, is called on the caller's thread at the end of every stage, with `user` and the
/// Part; for a plain graph, with `user` and the stage's number.
struct StageHook {
  void (*end)(void* user, uint32_t part);
  void* user;
};

}  // namespace llmc
