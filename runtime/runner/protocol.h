#pragma once

#include <stddef.h>
#include <stdint.h>

/// Protocol between a runner and the program that started it, over the runner's standard input and
/// output (docs/runtime.md). Its little-endian records have the same fixed layout on every target.
/// The runner first sends a Hello. Each request then gets one reply, in order, until the input
/// ends. Both programs must come from the same build.
namespace llmc::runner {

/// Version of the protocol; incremented with any change below.
inline constexpr uint32_t kVersion = 16;
inline constexpr char kMagic[8] = {'l', 'l', 'm', 'c', 'r', 'u', 'n', '\n'};

enum class Kind : uint32_t { kModel = 1, kFunctions = 2 };

/// The fields of llmc_model (llmc/model.h) that a caller needs.
struct ModelFacts {
  uint32_t vocab, hidden, layers, heads, kv_heads, head_dim;
  uint32_t ctx, chunk, kv_block, threads_max, sequences, batch;
  uint64_t weights_bytes, weights_hash, arena_bytes;
  uint32_t embedded_weights;  // 1: kStart needs no weights file
  uint32_t grammar_bytes;     // size of the tables of the compiled-in grammar; 0: there is none
  uint32_t prompt_tokens;     // number of tokens of the compiled-in prompt
  uint32_t source_min = 0, source_max = 0;  // limits of a source's tokens or frames; 0: no encoder
  uint32_t source_width = 0;                // features of a frame; 0: token ids
  uint32_t source_vocab = 0;                // vocabulary of the encoder; 0: features
  uint32_t sources = 0;                     // number of sources; 1: all sequences share one
  uint32_t embedding_width = 0;             // 0: the model takes no embeddings
  uint32_t position_axes = 0;               // number of positions of an embedding; 0: as text
  uint32_t image_rows = 0;                  // maximum rows of kEncodeImage; 0: no media encoder
  uint32_t shard = 0, shards = 0;           // as in llmc_model
  uint32_t single_steps = 0;                // 1: steps ignore drafts (speculation.h)
  uint64_t program_hash = 0;                // hash of the whole program, the same in all shards
  char target[64];                          // zero-terminated
};

struct Hello {
  char magic[8];
  uint32_t version;
  Kind kind;
  ModelFacts model;  // zero for functions
};

/// The comments describe the request's argument and data, then the value or data of the reply.
enum class Request : uint32_t {
  /// Data: Start, then the path of the weights file, if any. For a model: creates the session;
  /// allowed only once. For functions: maps the file of constants.
  kStart = 1,
  kPrefill = 2,      // int32_t tokens[]
  kStep = 3,         // value: the token that was chosen and appended
  kSample = 4,       // value: the token that would be chosen
  kSetSampling = 5,  // llmc_sampling
  kLogits = 6,       // reply: float[vocab], or nothing if there are no logits
  kLogitsAt = 7,     // argument: row of the last chunk; reply: float[vocab]
  kRewind = 8,       // argument: number of tokens to keep
  /// Data: Call, the sizes of inputs and outputs in bytes as uint64_t, the sizes of the open dims
  /// as int64_t, then the inputs. argument: index of the function. The reply contains the outputs.
  kCall = 9,
  kLogitsRows = 10,      // argument: row; uint32_t rows; reply: float[rows][vocab], or nothing
  kSelect = 11,          // argument: sequence
  kFork = 12,            // argument: sequence; value: the new sequence
  kRelease = 13,         // argument: sequence
  kAppendBatch = 14,     // uint32_t sequences[], then as many int32_t tokens[]
  kStepBatch = 15,       // uint32_t sequences[]; reply: int32_t tokens[]
  kSetLogitBias = 16,    // llmc_logit_bias[]
  kSetDryBreakers = 17,  // DryBreakers, then heads, tail_begins and tails of llmc_dry_breakers
  kCandidates = 18,      // Candidates; reply: llmc_candidate[]
  kLogprob = 19,         // argument: token; reply: float
  kSetGuidance = 20,     // argument: sequence of the guide; float scale
  kSetGrammar = 21,      // the grammar's tables; empty: the compiled-in grammar
  kTextState = 22,       // value: LLMC_GRAMMAR_INCOMPLETE, …
  kReset = 23,           // returns to the initial tokens
  kEncode = 24,          // int32_t ids[] of a source
  kEncodeFeatures = 25,  // argument: frames; float[frames * source_width]
  kBeamsInit = 26,       // Beams, then int32_t stop_ids[]; at most one search at a time
  kBeamsStep = 27,       // value: whether the search is done
  kBeamsResult = 28,     // argument: rank; reply: float score, then int32_t tokens[]
  kBeamsCount = 29,      // value: number of texts that have ended
  kBeamsEnd = 30,        // ends the search
  /// argument: number of rows; float[rows * embedding_width], then nothing or int32_t[rows *
  /// position_axes].
  kAppendEmbeddings = 31,
  /// Also for sounds. Data: uint64_t[], the offset of each input in the data, a multiple of 64,
  /// then
  /// the inputs. Open dims have their maximum sizes. The reply contains the rows.
  kEncodeImage = 32,
  kStepLookup = 33,  // argument: maximum tokens; int32_t stop_ids[]; reply: int32_t tokens[]
};

struct RequestHeader {
  Request what;
  uint32_t argument;
  uint64_t bytes;  // number of bytes of data that follow
};

struct ReplyHeader {
  /// llmc_status; for kCall, the function's own status. If it is not 0, the data is a message,
  /// possibly empty, and the session is unchanged, except as documented for llmc_encode.
  uint32_t status;
  int32_t value;
  uint64_t position;  // number of tokens in the session's cache
  uint64_t bytes;     // number of bytes of data that follow
};

struct Start {
  uint32_t threads;
  uint32_t chunk;             // 0: the model's maximum
  uint32_t cores = 0;         // LLMC_CORES_…
  uint32_t begin = 0;         // LLMC_BEGIN_…
  uint32_t full_context = 0;  // LLMC_FULL_…
  uint32_t keep_first = 0;
};

struct DryBreakers {
  uint32_t count;  // number of heads; there is one tail_begins more
  uint32_t tails;  // number of tails
};

struct Beams {
  uint32_t beams, max_tokens;
  int32_t stopping;  // LLMC_BEAMS_…
  float length_penalty;
};

struct Candidates {
  int32_t which;  // LLMC_CANDIDATES_…
  uint32_t n;
};

struct Call {
  uint64_t weights_offset;  // offset of the function's constants in the file
  uint64_t arena_bytes;
  uint32_t inputs, outputs;
  uint32_t dims = 0;  // number of open dims
  uint32_t reserved = 0;
};

/// Maximum size of a request in bytes, far above any valid one; detects invalid input.
inline constexpr uint64_t kMaxRequestBytes = uint64_t{1} << 34;

}  // namespace llmc::runner
