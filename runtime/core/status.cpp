#include "llmc/llmc.h"

extern "C" const char* llmc_status_text(llmc_status status) {
  switch (status) {
    case LLMC_OK:
      return "no error";
    case LLMC_ERROR_ARGUMENT:
      return "a required pointer is NULL or a number is invalid";
    case LLMC_ERROR_VERSION:
      return "header, model and runtime have different versions, or a configuration was not "
             "zeroed";
    case LLMC_ERROR_MODEL:
      return "the model descriptor is inconsistent";
    case LLMC_ERROR_ARENA_SMALL:
      return "the arena is smaller than the model's NAME_ARENA_BYTES";
    case LLMC_ERROR_ARENA_ALIGNMENT:
      return "the arena is not aligned to LLMC_ALIGNMENT (64) bytes";
    case LLMC_ERROR_CPU:
      return "this CPU lacks instructions the model was compiled for";
    case LLMC_ERROR_WEIGHTS:
      return "the weights are missing, not aligned to 64 bytes, or of another model";
    case LLMC_ERROR_THREADS:
      return "more threads than the model was compiled for";
    case LLMC_ERROR_SAMPLING:
      return "a sampling parameter is not a finite number or out of its range";
    case LLMC_ERROR_TOKEN:
      return "a token id is outside the vocabulary";
    case LLMC_ERROR_CONTEXT_FULL:
      return "the context has no room for these tokens";
    case LLMC_ERROR_POSITION:
      return "a position is after the end of the sequence, negative or too large";
    case LLMC_ERROR_NO_LOGITS:
      return "no token has been run since the start, a reset or a rewind";
    case LLMC_ERROR_NOT_FINITE:
      return "the logits have no finite maximum, or an embedding is NaN or infinite";
    case LLMC_ERROR_CANCELLED:
      return "cancelled by the application";
    case LLMC_ERROR_BUSY:
      return "the session was called from inside one of its own callbacks";
    case LLMC_ERROR_FLOAT_MODE:
      return "the calling thread does not round to nearest or flushes subnormal floats";
    case LLMC_ERROR_SEQUENCE:
      return "there is no such sequence, or no room for another one";
    case LLMC_ERROR_POOL_FULL:
      return "the cache's pool has no free blocks for these tokens, or all sources are in use";
    case LLMC_ERROR_STATE:
      return "the bytes are not a saved state, or a damaged one";
    case LLMC_ERROR_STATE_MODEL:
      return "the saved state belongs to another model or cache format";
    case LLMC_ERROR_NO_CANDIDATE:
      return "logit bias and grammar leave no token to choose from";
    case LLMC_ERROR_GRAMMAR_TABLES:
      return "the grammar's tables are damaged, of another version, or for another vocabulary";
    case LLMC_ERROR_GRAMMAR:
      return "the tokens do not belong to the grammar";
    case LLMC_ERROR_GRAMMAR_DEPTH:
      return "the text is nested deeper, or more ambiguous, than the grammar's state has room for";
    case LLMC_ERROR_SOURCE:
      return "no source is encoded, another one than the state needs, or the model has no encoder";
    case LLMC_ERROR_SHARD:
      return "one shard of a model runs tokens only with llmc_forward_hidden, a whole model "
             "without it";
    case LLMC_ERROR_DEVICE:
      return "the model was compiled without --accelerate, or the accelerator failed";
    case LLMC_ERROR_EMBEDDINGS:
      return "the model takes no embeddings, or would have to run embeddings again";
    case LLMC_ERROR_FILE:
      return "a file cannot be opened, read or mapped";
    case LLMC_ERROR_FORMAT:
      return "a file's content is invalid";
    case LLMC_ERROR_MEMORY:
      return "out of memory or threads";
    case LLMC_ERROR_BUFFER:
      return "the buffer is too small";
  }
  return "unknown status";
}
