/* llmc: functions for programs on an operating system, in libllmc_hosted.a: threads, weights from a
 * file, tokenizers, grammars, conversations. C99 or C++; link with -lstdc++ -lpthread -ldl -lm. A
 * compiled model does not need this library. The functions never throw. */
#ifndef LLMC_HOSTED_H
#define LLMC_HOSTED_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Threads ---- */

typedef struct llmc_pool llmc_pool;

/* Returns the number of cores that this process may use, at least 1. */
uint32_t llmc_usable_cores(void);
/* Creates a pool of `threads` workers, at most 4096, including the calling thread; 0:
 * llmc_usable_cores(). Fails with LLMC_ERROR_ARGUMENT for more workers, and with LLMC_ERROR_MEMORY
 * if the system cannot create the threads. */
llmc_status llmc_pool_create(uint32_t threads, llmc_pool** pool);
/* Ends the threads of an idle pool. NULL has no effect. */
void llmc_pool_destroy(llmc_pool* pool);
uint32_t llmc_pool_threads(const llmc_pool* pool);
/* Function for llmc_config.parallel_for, with parallel_user = the pool and threads =
 * llmc_pool_threads(pool). Several sessions may share a pool; it runs one call at a time. */
void llmc_pool_parallel_for(void* pool, void (*fn)(void* arg, uint32_t i), void* arg, uint32_t n);

/* ---- Accelerators (llmc/device.h) ---- */

struct llmc_device;

/* Creates the device `reference` for llmc_config.device: it computes the regions of a model that
 * was compiled with --accelerate on `threads` separate threads, at most 4096; 0: one. Fails like
 * llmc_pool_create. A device belongs to one session at a time. */
llmc_status llmc_reference_device_create(uint32_t threads, const struct llmc_device** device);
/* Ends the threads. No session may use the device any more. NULL has no effect. */
void llmc_reference_device_destroy(const struct llmc_device* device);

/* Which device llmc_opencl_device_create uses. Zero the struct and set `size` for the first GPU or
 * accelerator, else the first device. */
typedef struct llmc_opencl_options {
  uint32_t size;      /* sizeof(llmc_opencl_options) */
  uint32_t copies;    /* non-zero: copies rows and weights even if the device shares the CPU's
                         memory */
  const char* device; /* a part of the name "platform: device"; NULL: any device */
  /* Path of a file that caches the compiled kernels; NULL: no cache. The file may be absent. It is
   * read when the device is created, and written when a session that uses the device is
   * initialized. Nobody else may be able to write it, because the driver trusts its content. */
  const char* kernels;
} llmc_opencl_options;
/* Creates the device `opencl` for llmc_config.device: a GPU or another processor with OpenCL 1.2.
 * The system's libOpenCL.so.1 is loaded. `options` may be NULL. Fails with LLMC_ERROR_DEVICE if
 * there is no such device, or if its floats are not correctly rounded, with LLMC_ERROR_VERSION if
 * options->size is wrong, and with LLMC_ERROR_MEMORY if the system cannot create a thread. Writes
 * the reason to message[0 .. message_bytes), which may be NULL. A device belongs to the session
 * that was initialized with it last. */
llmc_status llmc_opencl_device_create(const llmc_opencl_options* options,
                                      const struct llmc_device** device, char* message,
                                      size_t message_bytes);
/* Returns the name, valid as long as the device. */
const char* llmc_opencl_device_name(const struct llmc_device* device);
/* Returns the number of bytes of rows that were copied to and from the device; 0 if it shares the
 * CPU's memory. */
uint64_t llmc_opencl_copied_bytes(const struct llmc_device* device);
/* Ends its jobs and releases its memory. Must be called before the session's arena and weights are
 * freed. NULL has no effect. */
void llmc_opencl_device_destroy(const struct llmc_device* device);

/* ---- Weights ---- */

/* Maps NAME.weights.bin. Set weights and weights_bytes of llmc_config to the two results. Fails
 * with LLMC_ERROR_FILE. */
llmc_status llmc_map_weights(const char* path, const void** weights, size_t* bytes);
/* Unmaps the weights, which no session may use any more. */
void llmc_unmap_weights(const void* weights, size_t bytes);

/* ---- Huge pages ---- */

/* Memory in huge pages (usually 2 MiB) is read faster, because the processor needs fewer page table
 * entries: docs/performance.md. */

/* Returns the size of a huge page; 0 if the kernel has none for this process. */
size_t llmc_huge_page_bytes(void);
/* Returns the weights of a library that contains them, and sets *bytes; NULL and 0 for a library
 * with a NAME.weights.bin, or of another version. `model`: &NAME_model. */
const void* llmc_embedded_weights(const llmc_model* model, size_t* bytes);
/* Copies read-only data[0 .. bytes), such as embedded or mapped weights, into huge pages, which
 * replace its pages at the same addresses. No pointer changes, and other threads may read the data
 * during the call. The copy is private to this process. Data at the beginning and end that does not
 * fill a huge page stays in its place. Copies with the threads of `pool`, or with the calling
 * thread if it is NULL. *huge_bytes (may be NULL) receives the number of bytes that are in huge
 * pages now. LLMC_ERROR_MEMORY: huge pages or memory are not available for all of it; `message`
 * (may be NULL) receives the reason, truncated to message_bytes including the terminating zero. The
 * data can be used after any result. */
llmc_status llmc_move_to_huge_pages(const void* data, size_t bytes, llmc_pool* pool,
                                    size_t* huge_bytes, char* message, size_t message_bytes);
/* Allocates an arena of zeroed pages, of which only the used ones take memory: huge pages if
 * huge_pages is not 0 and the kernel has any. Fails with LLMC_ERROR_MEMORY. */
llmc_status llmc_arena_create(size_t bytes, int huge_pages, void** arena);
/* Frees an arena, which no session may use any more. `bytes`: as in llmc_arena_create. */
void llmc_arena_free(void* arena, size_t bytes);

/* ---- Tokenizers ---- */

typedef struct llmc_tokenizer llmc_tokenizer;

/* Loads the tables NAME.tokenizer.bin of a bundle, which are mapped, or a tokenizer in one of these
 * formats: MNN's tokenizer.txt, sentencepiece's .model, Hugging Face's tokenizer.json, tiktoken's
 * list. Fails with LLMC_ERROR_FILE or LLMC_ERROR_FORMAT. On failure `message` (may be NULL)
 * receives one sentence, truncated to message_bytes including the terminating zero. */
llmc_status llmc_tokenizer_load(const char* path, llmc_tokenizer** tokenizer, char* message,
                                size_t message_bytes);
/* Creates a tokenizer from the content of a NAME.tokenizer.bin in memory, which must be aligned to
 * 8 bytes and outlive the tokenizer. A program that creates tokenizers only with this function does
 * not link the readers of the other formats. */
llmc_status llmc_tokenizer_from_tables(const void* tables, size_t bytes, llmc_tokenizer** tokenizer,
                                       char* message, size_t message_bytes);
void llmc_tokenizer_free(llmc_tokenizer* tokenizer);
/* Returns the number of tokens. All ids are smaller. */
size_t llmc_tokenizer_size(const llmc_tokenizer* tokenizer);
/* Returns the id of the first token that begins a prompt (usually BOS); -1 if there is none. */
int32_t llmc_tokenizer_bos(const llmc_tokenizer* tokenizer);
/* Returns non-zero if generation ends with this id. */
int llmc_tokenizer_is_stop(const llmc_tokenizer* tokenizer, int32_t id);

enum {
  LLMC_ENCODE_PREFIX = 1,  /* begin with the tokenizer's prefix ids (such as BOS) */
  LLMC_ENCODE_SPECIAL = 2, /* parse names of control tokens in the text as those tokens */
  LLMC_ENCODE_SUFFIX = 4   /* end with the ids that end the input of an encoder */
};
/* Tokenizes text[0 .. bytes) and sets *count to the number of ids. If there are more than
 * `capacity`, writes the first `capacity` of them and returns LLMC_ERROR_BUFFER. `ids` may be NULL
 * if `capacity` is 0. */
llmc_status llmc_tokenizer_encode(const llmc_tokenizer* tokenizer, const char* text, size_t bytes,
                                  unsigned flags, int32_t* ids, size_t capacity, size_t* count);

/* Converts a stream of tokens to text, whole UTF-8 characters only. */
typedef struct llmc_decoder llmc_decoder;

/* Creates a decoder. The tokenizer must outlive it. at_start: non-zero if the first token begins a
 * text, so that the space that the tokenizer inserts there is removed. */
llmc_status llmc_decoder_create(const llmc_tokenizer* tokenizer, int at_start,
                                llmc_decoder** decoder);
void llmc_decoder_free(llmc_decoder* decoder);
/* Adds a token and returns the text that it completes: zero-terminated, possibly empty, valid until
 * the next call with this decoder. `bytes` may be NULL. */
llmc_status llmc_decoder_add(llmc_decoder* decoder, int32_t id, const char** text, size_t* bytes);
/* Returns the incomplete rest of the text, as replacement characters. */
llmc_status llmc_decoder_finish(llmc_decoder* decoder, const char** text, size_t* bytes);

/* ---- Sound ---- */

/* Read a WAV file, or its content in memory, for llmc_encode_features. Its samples are integers of
 * 8 to 32 bits or floats. The channels are averaged and resampled to `rate` samples per second,
 * 1000 to 1000000; speech models usually expect 16000. *samples receives *n numbers, normally in
 * [-1, 1], but nothing is clipped; free them with llmc_sound_free. On failure `message` (may be
 * NULL) receives one sentence, truncated to message_bytes including the terminating zero.
 * LLMC_ERROR_FORMAT: not a WAV file, a damaged one, or one with another encoding.
 * LLMC_ERROR_FILE: the file cannot be read. LLMC_ERROR_ARGUMENT: a pointer is NULL or the rate is
 * out of range. */
llmc_status llmc_sound_load(const char* path, uint32_t rate, float** samples, size_t* n,
                            char* message, size_t message_bytes);
llmc_status llmc_sound_read(const void* wav, size_t bytes, uint32_t rate, float** samples,
                            size_t* n, char* message, size_t message_bytes);
void llmc_sound_free(float* samples);

/* Computes the features f32[mels][frames] of Whisper's encoder from sound of 16000 samples per
 * second, which is cut or padded with zeros to 160 * frames samples: the logarithm of the power in
 * `mels` bands of Slaney's mel scale, in windows of 25 ms every 10 ms, as Hugging Face's
 * WhisperFeatureExtractor computes it. `mels` is 1 .. 1024 (in Whisper's models 80 or 128),
 * `frames` is 2 .. 1000000 (in Whisper's models 3000). Other values are LLMC_ERROR_ARGUMENT. */
llmc_status llmc_log_mel(const float* samples, size_t n, size_t mels, size_t frames,
                         float* features);

/* ---- Grammars ---- */

typedef enum llmc_grammar_kind {
  LLMC_GRAMMAR_GBNF = 0,       /* a grammar in llama.cpp's GBNF format */
  LLMC_GRAMMAR_JSON_SCHEMA = 1 /* a JSON schema; all texts are documents that are valid for it, in
                                  the forms that docs/grammar.md describes */
} llmc_grammar_kind;

/* Optional settings. Zero the struct, set `size`, then the fields you need. */
typedef struct llmc_grammar_options {
  size_t size;           /* sizeof(llmc_grammar_options) */
  size_t vocab;          /* llmc_vocabulary_size of the session; 0: use llmc_tokenizer_size */
  const char* chat_path; /* NAME.chat.json of the bundle, which lists the tokens that end an
                            answer; NULL: none */
  const char* root;      /* LLMC_GRAMMAR_GBNF: the rule that texts must match; NULL: "root" */
  uint64_t max_bytes;    /* maximum size of the tables; 0: 256 MiB */
  uint64_t max_steps;    /* maximum number of steps through the vocabulary, which bounds the
                            time; 0: 20 billion, which take minutes */
} llmc_grammar_options;

/* Compiles a grammar or JSON schema text[0 .. bytes), UTF-8, to tables, the data that `llmc compile
 * --grammar` or `--json-schema` stores in a library as NAME_grammar. Pass *tables and *tables_bytes
 * to llmc_grammar_init. The tables are aligned to 8 bytes. The caller owns them and frees them with
 * llmc_grammar_tables_free. `options` may be NULL. docs/grammar.md lists the supported constructs.
 *
 * LLMC_ERROR_FORMAT: the text or the file options->chat_path is malformed, contains an unsupported
 * construct, or exceeds a limit. LLMC_ERROR_FILE: options->chat_path cannot be read.
 * LLMC_ERROR_VERSION: options->size is too small, or another version of llmc wrote the file.
 * LLMC_ERROR_ARGUMENT: a pointer is NULL or `kind` is unknown. `message` (may be NULL) receives the
 * reason, with the line and column in a grammar or the place in a schema (#/properties/a),
 * truncated to message_bytes including the terminating zero. On any failure *tables is NULL and
 * *tables_bytes is 0.
 *
 * Thread-safe: several calls may use the same tokenizer at the same time. */
llmc_status llmc_grammar_compile(const llmc_tokenizer* tokenizer, llmc_grammar_kind kind,
                                 const char* text, size_t bytes,
                                 const llmc_grammar_options* options, const void** tables,
                                 size_t* tables_bytes, char* message, size_t message_bytes);
/* Frees tables that no grammar uses any more. NULL has no effect. */
void llmc_grammar_tables_free(const void* tables);

/* ---- Stop texts ---- */

/* Finds texts that end a generation, even if they extend over several tokens. Withholds text that
 * may be the beginning of such a text. llmc_chat_answer uses this for llmc_chat_options.stop. */
typedef struct llmc_stop_texts llmc_stop_texts;

/* Copies the zero-terminated texts[0 .. count). Fails with LLMC_ERROR_ARGUMENT if one of them is
 * empty or not UTF-8. */
llmc_status llmc_stop_texts_create(const char* const* texts, size_t count,
                                   llmc_stop_texts** stop_texts);
void llmc_stop_texts_free(llmc_stop_texts* stop_texts);
/* Adds a piece of text, such as a result of llmc_decoder_add. *text receives the text that may be
 * shown: zero-terminated, whole characters, possibly empty, valid until the next call with this
 * object. `shown_bytes` may be NULL. If several stop texts match, the one that ends first applies;
 * if several end at the same place, the longest. */
llmc_status llmc_stop_texts_add(llmc_stop_texts* stop_texts, const char* piece, size_t bytes,
                                const char** text, size_t* shown_bytes);
/* Returns non-zero after a stop text was found: the generation must end. The functions return
 * neither the stop text nor any text after it. */
int llmc_stop_texts_found(const llmc_stop_texts* stop_texts);
/* Returns the withheld text. Call it at the end of a generation that no stop text ended. The object
 * can then be used for another generation. */
llmc_status llmc_stop_texts_finish(llmc_stop_texts* stop_texts, const char** text, size_t* bytes);

/* ---- Sampling ---- */

/* Sets the fields of `sampling` for which the model's files (generation_config.json, MNN's
 * llm_config.json) recommend values. Call llmc_sampling_defaults first, because the other fields
 * are unchanged. `path`: NAME.chat.json of the bundle. Fails with LLMC_ERROR_FILE if it cannot be
 * read (a model without a chat format and recommended values has no such file), with
 * LLMC_ERROR_FORMAT if it is malformed, and with LLMC_ERROR_VERSION if another version of llmc
 * wrote it. On failure `sampling` is unchanged and `message` (may be NULL) receives the reason. */
llmc_status llmc_sampling_load(const char* path, llmc_sampling* sampling, char* message,
                               size_t message_bytes);

/* ---- Conversations ---- */

/* A conversation: messages and the answers to them, in the format that the model was trained on. An
 * answer runs only the tokens of the conversation that are not in the KV cache. */
typedef struct llmc_chat llmc_chat;

/* Creates a conversation, which has exclusive use of the session. The session and the tokenizer
 * must outlive it. `path`: NAME.chat.json of the bundle. If it is NULL or the file has no template,
 * messages are concatenated without a format. Tokens that are already in the session stay before
 * the conversation. If they are exactly the compiled-in system message, that message is the first
 * of the conversation. Fails with LLMC_ERROR_FORMAT if the file or its template cannot be used,
 * with LLMC_ERROR_VERSION if another version of llmc wrote the file, and with LLMC_ERROR_FILE if it
 * cannot be read; `message` (may be NULL) receives the reason. */
llmc_status llmc_chat_create(llmc_session* session, const llmc_tokenizer* tokenizer,
                             const char* path, llmc_chat** chat, char* message,
                             size_t message_bytes);
void llmc_chat_free(llmc_chat* chat);

/* Appends a UTF-8 message without running the model. `role`: "system", "user" or "assistant"; NULL:
 * "user". Without a template the role has no effect. */
llmc_status llmc_chat_add(llmc_chat* chat, const char* role, const char* text, size_t bytes);

/* Why an answer ended. */
typedef enum llmc_stopped {
  LLMC_STOPPED_TOKEN = 0,     /* a token that ends an answer: the usual reason */
  LLMC_STOPPED_TEXT = 1,      /* one of the stop texts */
  LLMC_STOPPED_LENGTH = 2,    /* max_tokens was reached */
  LLMC_STOPPED_CONTEXT = 3,   /* the context is full: use llmc_chat_reset, forget_oldest or a
                                 larger --ctx */
  LLMC_STOPPED_CANCELLED = 4, /* llmc_chat_cancel was called */
  LLMC_STOPPED_CALLBACK = 5,  /* the callback returned non-zero */
  LLMC_STOPPED_GRAMMAR = 6    /* no token can continue the text of the grammar */
} llmc_stopped;

/* Optional settings. Zero the struct, set `size`, then the fields you need. */
typedef struct llmc_chat_options {
  size_t size;             /* sizeof(llmc_chat_options) */
  size_t max_tokens;       /* 0: limited only by the context */
  const char* const* stop; /* texts (UTF-8) that end the answer and are not part of it, even if
                              they extend over several tokens; empty texts are ignored */
  size_t stop_count;
  /* Receives the answer in pieces: whole UTF-8 characters, zero-terminated, valid during the call.
   * Return non-zero to end the answer. May be NULL. */
  int (*text)(void* user, const char* text, size_t bytes);
  void* user;
  /* Non-zero: when the context is full, remove the oldest turns (without a template: the oldest
   * messages), run the remaining ones again, and continue the answer. The system message and the
   * last turn are never removed. Mirostat continues with its state after the last token that was
   * not run again. */
  int forget_oldest;
} llmc_chat_options;

typedef struct llmc_chat_result {
  llmc_stopped why;
  int begun;            /* 0: cancelled before the messages were run, so no answer was added */
  size_t tokens;        /* number of tokens in the answer */
  size_t prompt_tokens; /* tokens run before the answer, including those run again after turns
                           were removed */
  size_t kept_tokens;   /* tokens of the conversation that were reused from the cache */
  double prompt_seconds, seconds;
  size_t forgotten; /* number of messages removed (forget_oldest) */
} llmc_chat_result;

/* Generates the answer to the messages added so far, and appends it to the conversation. `options`
 * and `result` may be NULL. On an error no answer is appended. LLMC_ERROR_CONTEXT_FULL: the
 * messages do not fit. LLMC_ERROR_FORMAT: the template rejects them (llmc_chat_message returns the
 * reason). LLMC_ERROR_VERSION: options->size is too small. LLMC_ERROR_ARGUMENT: a stop text is NULL
 * or not UTF-8. Errors of the session are returned as well. During the call, including its
 * callback, only llmc_chat_cancel may be called for this chat; functions that change or save its
 * messages return LLMC_ERROR_BUSY. */
llmc_status llmc_chat_answer(llmc_chat* chat, const llmc_chat_options* options,
                             llmc_chat_result* result);
/* Returns a sentence about the last error, or "". Valid until the next call with this chat. */
const char* llmc_chat_message(const llmc_chat* chat);
/* Returns the answer of the last llmc_chat_answer, zero-terminated; "" before the first one, and
 * after an error, llmc_chat_reset or llmc_chat_load. Valid until the next call with this chat. */
const char* llmc_chat_text(const llmc_chat* chat, size_t* bytes);

/* Ends the answer in progress after the current token, or after the current chunk while messages
 * are run. If no answer is in progress, ends the next one when it starts. May be called from any
 * thread and from a signal handler: it sets a lock-free flag. */
void llmc_chat_cancel(llmc_chat* chat);

/* Constrains all later answers to a grammar, which restarts with every answer. NULL: no grammar.
 * The pointer is kept: the grammar must stay valid. Returns the statuses of llmc_set_grammar,
 * and LLMC_ERROR_BUSY from the callback of llmc_chat_answer. */
llmc_status llmc_chat_set_grammar(llmc_chat* chat, llmc_grammar* grammar);

/* Removes the last message: a question without an answer, or an answer. */
llmc_status llmc_chat_drop_last(llmc_chat* chat);
/* Removes all messages except a leading system message, and the tokens of the conversation except
 * those of a compiled-in system message. */
llmc_status llmc_chat_reset(llmc_chat* chat);

/* Returns the messages as zero-terminated JSON, in the format of `llmc chat`, and the KV cache of
 * their tokens, so that they need not be run again. Both are valid until the next llmc_chat_save of
 * this chat. `bytes` may be NULL. If `cache` and `cache_bytes` are both NULL, only the messages are
 * saved. (`llmc chat` stores the cache in a file named "cache" next to the JSON.) On an error the
 * JSON is "" and the cache is NULL. LLMC_ERROR_STATE: the cache begins with tokens that are not
 * part of the conversation. */
llmc_status llmc_chat_save(llmc_chat* chat, const char** json, size_t* bytes, const void** cache,
                           size_t* cache_bytes);
/* Replaces the messages with saved messages, without running the model. `cache`: the cache that was
 * saved with them, or NULL. After LLMC_ERROR_ARGUMENT, LLMC_ERROR_BUSY and LLMC_ERROR_FORMAT
 * nothing has changed. LLMC_ERROR_STATE: the cache is damaged or belongs to other messages. After
 * this and the errors of llmc_state_load, such as LLMC_ERROR_STATE_MODEL, the messages are loaded,
 * and the next answer runs their tokens. llmc_chat_message returns the reason. */
llmc_status llmc_chat_load(llmc_chat* chat, const char* json, size_t bytes, const void* cache,
                           size_t cache_bytes);

#ifdef __cplusplus
}
#endif

#endif /* LLMC_HOSTED_H */
