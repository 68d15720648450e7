#pragma once

#include <stddef.h>
#include <stdint.h>

/// What a runner and the program that started it say to each other, over the runner's standard
/// input and output (docs/runtime.md). Little-endian records of fixed layout, the same on every
/// target. The runner says hello first; then each request gets one reply, in order, until the input
/// ends. Only a runner and a compiler of the same build talk to each other.
namespace llmc::runner {

/// Raised with any change below.
inline constexpr uint32_t kVersion = 6;
inline constexpr char kMagic[8] = {'l', 'l', 'm', 'c', 'r', 'u', 'n', '\n'};

enum class Kind : uint32_t { kModel = 1, kFunctions = 2 };

/// The numbers of llmc_model (llmc/model.h) that a caller needs.
struct ModelFacts {
  uint32_t vocab, hidden, layers, heads, kv_heads, head_dim;
  uint32_t ctx, chunk, kv_block, threads_max, sequences, batch;
  uint64_t weights_bytes, weights_hash, arena_bytes;
  uint32_t embedded_weights;  // 1: kStart takes no file
  uint32_t grammar_bytes;     // tables of the grammar that was compiled in; 0: there is none
  uint32_t prompt_tokens;     // that were compiled into the model
  uint32_t reserved;
  char target[64];  // zero-terminated
};

struct Hello {
  char magic[8];
  uint32_t version;
  Kind kind;
  ModelFacts model;  // zero for functions
};

enum class Request : uint32_t {
  /// Start, then the path of the weights' file or nothing. A model: makes the session, once.
  /// Functions: maps the constants.
  kStart = 1,
  kPrefill = 2,      // int32_t tokens[]
  kStep = 3,         // value: the token that was chosen and run
  kSample = 4,       // value: the token that would be chosen
  kSetSampling = 5,  // llmc_sampling
  kLogits = 6,       // float[vocab], or nothing when there are none
  kLogitsAt = 7,     // argument: row of the last chunk; float[vocab]
  kRewind = 8,       // argument: tokens to keep
  /// Call, then sizes of inputs and outputs as uint64_t, then the inputs. Replies with the outputs.
  /// argument: index of the function.
  kCall = 9,
  kLogitsRows = 10,      // argument: row; uint32_t rows; float[rows][vocab], or nothing
  kSelect = 11,          // argument: sequence
  kFork = 12,            // argument: sequence; value: the new one
  kRelease = 13,         // argument: sequence
  kAppendBatch = 14,     // uint32_t sequences[], as many int32_t tokens[]
  kStepBatch = 15,       // uint32_t sequences[]; int32_t tokens[]
  kSetLogitBias = 16,    // llmc_logit_bias[]
  kSetDryBreakers = 17,  // DryBreakers, then heads, tail_begins and tails of llmc_dry_breakers
  kCandidates = 18,      // Candidates; llmc_candidate[]
  kLogprob = 19,         // argument: token; float
  kSetGuidance = 20,     // argument: sequence that guides; float
  kSetGrammar = 21,      // its tables, or nothing: the one that was compiled in
  kTextState = 22,       // value: LLMC_GRAMMAR_…
  kReset = 23,           // back to what the session began with
};

struct RequestHeader {
  Request what;
  uint32_t argument;
  uint64_t bytes;  // that follow
};

struct ReplyHeader {
  /// llmc_status; a function's own for kCall. When it is not 0 the bytes are a message, maybe
  /// empty, and the session is as it was.
  uint32_t status;
  int32_t value;
  uint64_t position;  // tokens in the session's cache
  uint64_t bytes;     // that follow
};

struct Start {
  uint32_t threads;
  uint32_t chunk;             // 0: the model's
  uint32_t cores = 0;         // LLMC_CORES_…
  uint32_t begin = 0;         // LLMC_BEGIN_…
  uint32_t full_context = 0;  // LLMC_FULL_…
  uint32_t keep_first = 0;
};

struct DryBreakers {
  uint32_t count;
  uint32_t tails;
};

struct Candidates {
  int32_t which;  // LLMC_CANDIDATES_…
  uint32_t n;
};

struct Call {
  uint64_t weights_offset;  // of the function's constants in the file
  uint64_t arena_bytes;
  uint32_t inputs, outputs;
};

/// The largest request: guards against garbage, far above any context.
inline constexpr uint64_t kMaxRequestBytes = uint64_t{1} << 34;

}  // namespace llmc::runner
