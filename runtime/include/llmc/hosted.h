/*
 * llmc: conveniences for programs on an operating system, in libllmc_hosted.a: threads, weights
 * from a file, tokenizers, grammars, conversations. C99 or C++; link with -lstdc++ -lpthread -ldl
 * -lm.
 * Nothing here is needed by a compiled model. Exceptions never leave these functions.
 */
#ifndef LLMC_HOSTED_H
#define LLMC_HOSTED_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Threads ---- */

typedef struct llmc_pool llmc_pool;

/* Cores this process may run on, at least 1. */
uint32_t llmc_usable_cores(void);
/* A pool of `threads` workers, the calling thread among them; 0: llmc_usable_cores(). */
llmc_status llmc_pool_create(uint32_t threads, llmc_pool** pool);
/* Not while it is working. NULL: nothing. */
void llmc_pool_destroy(llmc_pool* pool);
uint32_t llmc_pool_threads(const llmc_pool* pool);
/* For llmc_config: parallel_for = llmc_pool_parallel_for, parallel_user = the pool, threads =
 * llmc_pool_threads(pool). Sessions may share a pool; they then take turns. */
void llmc_pool_parallel_for(void* pool, void (*fn)(void* arg, uint32_t i), void* arg, uint32_t n);

/* ---- Weights ---- */

/* Maps NAME.weights.bin; give both values to llmc_config. */
llmc_status llmc_map_weights(const char* path, const void** weights, size_t* bytes);
/* Not before the sessions that use them are done with. */
void llmc_unmap_weights(const void* weights, size_t bytes);

/* ---- Tokenizers ---- */

typedef struct llmc_tokenizer llmc_tokenizer;

/* Reads NAME.tokenizer.bin of a bundle, which is mapped, or a file it was made of: MNN's
 * tokenizer.txt, sentencepiece's .model, Hugging Face's tokenizer.json, tiktoken's list. On failure
 * `message` (may be NULL) gets a sentence that says what is wrong, cut to message_bytes with its
 * zero. */
llmc_status llmc_tokenizer_load(const char* path, llmc_tokenizer** tokenizer, char* message,
                                size_t message_bytes);
/* A tokenizer that reads the content of a NAME.tokenizer.bin where it lies: at a multiple of 8, and
 * for as long as the tokenizer lives. A program that has no other way to a tokenizer does not link
 * the readers of the other formats. */
llmc_status llmc_tokenizer_from_tables(const void* tables, size_t bytes, llmc_tokenizer** tokenizer,
                                       char* message, size_t message_bytes);
void llmc_tokenizer_free(llmc_tokenizer* tokenizer);
/* Number of tokens; ids are below it. */
size_t llmc_tokenizer_size(const llmc_tokenizer* tokenizer);
/* The id a prompt starts with, or -1. */
int32_t llmc_tokenizer_bos(const llmc_tokenizer* tokenizer);
/* Whether generation ends with this id. */
int llmc_tokenizer_is_stop(const llmc_tokenizer* tokenizer, int32_t id);

enum {
  LLMC_ENCODE_PREFIX = 1,  /* start with the ids a prompt starts with */
  LLMC_ENCODE_SPECIAL = 2, /* names of control tokens in the text are these tokens */
  LLMC_ENCODE_SUFFIX = 4   /* end with the ids that end what an encoder reads */
};
/* Ids of text[0 .. bytes). *count is how many there are; with more than `capacity`
 * LLMC_ERROR_BUFFER, and ids (may be NULL then) holds the first of them. */
llmc_status llmc_tokenizer_encode(const llmc_tokenizer* tokenizer, const char* text, size_t bytes,
                                  unsigned flags, int32_t* ids, size_t capacity, size_t* count);

/* Text of a stream of tokens, whole UTF-8 characters only. */
typedef struct llmc_decoder llmc_decoder;

/* at_start: the first token begins a text, so a space that only encoding adds is left out. The
 * tokenizer must outlive the decoder. */
llmc_status llmc_decoder_create(const llmc_tokenizer* tokenizer, int at_start,
                                llmc_decoder** decoder);
void llmc_decoder_free(llmc_decoder* decoder);
/* The text this token completes, perhaps none, zero-terminated; valid until the next call with this
 * decoder. `bytes` may be NULL. */
llmc_status llmc_decoder_add(llmc_decoder* decoder, int32_t id, const char** text, size_t* bytes);
/* What was left incomplete, as replacement characters. */
llmc_status llmc_decoder_finish(llmc_decoder* decoder, const char** text, size_t* bytes);

/* ---- Grammars ---- */

typedef enum llmc_grammar_kind {
  LLMC_GRAMMAR_GBNF = 0,       /* a grammar in llama.cpp's form */
  LLMC_GRAMMAR_JSON_SCHEMA = 1 /* a JSON schema: texts are documents that are valid for it */
} llmc_grammar_kind;

/* Zero it, set `size`, then what is wanted. */
typedef struct llmc_grammar_options {
  size_t size;           /* sizeof(llmc_grammar_options) */
  size_t vocab;          /* llmc_vocabulary_size of the session; 0: llmc_tokenizer_size */
  const char* chat_path; /* NAME.chat.json of the bundle, where there is one: the model's vocabulary
                            depends on the tokens that end an answer; NULL: none */
  const char* root;      /* of LLMC_GRAMMAR_GBNF: the rule that texts match; NULL: "root" */
  uint64_t max_bytes;    /* of the tables; 0: 256 MiB */
  uint64_t max_steps;    /* of the walks through the vocabulary, which bounds the time; 0: 20 billion,
                            which take minutes */
} llmc_grammar_options;

/* Builds the tables of a grammar or schema text[0 .. bytes), UTF-8: the bytes that `llmc compile
 * --grammar` or `--json-schema` puts into a library as NAME_grammar. Give both values to
 * llmc_grammar_init. The caller owns them and frees them with llmc_grammar_tables_free; they are
 * aligned to 8 bytes. `options` may be NULL. docs/grammar.md lists what is supported.
 *
 * LLMC_ERROR_FORMAT: the text is malformed, uses what is not supported, or exceeds a limit;
 * `message` (may be NULL) says what, with line and column of a grammar or the place in a schema
 * (#/properties/a), cut to message_bytes with its zero. LLMC_ERROR_FILE and LLMC_ERROR_FORMAT also
 * for options->chat_path. LLMC_ERROR_VERSION: options->size is too small. LLMC_ERROR_ARGUMENT: a
 * NULL, or an unknown kind. On failure *tables is NULL and *tables_bytes is 0.
 *
 * Thread safe: it only reads the tokenizer, which several calls may share. */
llmc_status llmc_grammar_compile(const llmc_tokenizer* tokenizer, llmc_grammar_kind kind,
                                 const char* text, size_t bytes,
                                 const llmc_grammar_options* options, const void** tables,
                                 size_t* tables_bytes, char* message, size_t message_bytes);
/* Requires that no grammar made from them is used any more. NULL: nothing. */
void llmc_grammar_tables_free(const void* tables);

/* ---- Stop texts ---- */

/* Finds texts that end a generation, whichever way the tokens cut them, and withholds what may
 * become one. llmc_chat_answer has this built in (llmc_chat_options.stop). */
typedef struct llmc_stop_texts llmc_stop_texts;

/* Copies texts[0 .. count), zero-terminated. LLMC_ERROR_ARGUMENT for an empty text or one that is
 * not UTF-8. */
llmc_status llmc_stop_texts_create(const char* const* texts, size_t count,
                                   llmc_stop_texts** stop_texts);
void llmc_stop_texts_free(llmc_stop_texts* stop_texts);
/* Adds a piece of text as llmc_decoder_add returns it. *text is what can be shown: zero-terminated,
 * whole characters, perhaps empty, valid until the next call with this object. `shown_bytes` may be
 * NULL. The match that ends first counts, the longest of those that end together. */
llmc_status llmc_stop_texts_add(llmc_stop_texts* stop_texts, const char* piece, size_t bytes,
                                const char** text, size_t* shown_bytes);
/* Not 0 once a stop text was found: generation ends here. Neither the stop text nor anything after
 * it is returned. */
int llmc_stop_texts_found(const llmc_stop_texts* stop_texts);
/* Returns what was withheld, at the end of a generation that no stop text ended; then the object
 * is ready for another generation. */
llmc_status llmc_stop_texts_finish(llmc_stop_texts* stop_texts, const char** text, size_t* bytes);

/* ---- Sampling ---- */

/* Sets the fields of `sampling` that the model's files (generation_config.json, MNN's
 * llm_config.json) recommend values for and leaves the others: call llmc_sampling_defaults first.
 * `path`: NAME.chat.json of the bundle; a bundle whose model recommends nothing may not have one
 * (LLMC_ERROR_FILE). On failure `sampling` is unchanged and `message` (may be NULL) says why. */
llmc_status llmc_sampling_load(const char* path, llmc_sampling* sampling, char* message,
                               size_t message_bytes);

/* ---- Conversations ---- */

/* Messages and the answers to them, in the form the model was trained on. The cache follows: for an
 * answer only tokens are run that are not in it yet. */
typedef struct llmc_chat llmc_chat;

/* `path`: NAME.chat.json of the bundle; NULL, or a file without a template: texts simply go on, one
 * behind the other. The session is used by nobody else; tokens it holds already stay in front, but
 * a session that is as it began, behind the system message that was compiled into the model, has
 * the conversation's first message in its cache. It and the tokenizer must outlive the chat.
 * LLMC_ERROR_FORMAT when the template cannot be used; `message` (may be NULL) says why. */
llmc_status llmc_chat_create(llmc_session* session, const llmc_tokenizer* tokenizer,
                             const char* path, llmc_chat** chat, char* message,
                             size_t message_bytes);
void llmc_chat_free(llmc_chat* chat);

/* Adds a message of UTF-8; nothing is run yet. `role`: "system", "user" or "assistant"; NULL:
 * "user". Without a template roles do not matter. */
llmc_status llmc_chat_add(llmc_chat* chat, const char* role, const char* text, size_t bytes);

/* Why an answer ended. */
typedef enum llmc_stopped {
  LLMC_STOPPED_TOKEN = 0,     /* with a token that ends it: the usual case */
  LLMC_STOPPED_TEXT = 1,      /* with one of the stop texts */
  LLMC_STOPPED_LENGTH = 2,    /* max_tokens */
  LLMC_STOPPED_CONTEXT = 3,   /* the context is full: llmc_chat_reset, forget_oldest, or a larger
                                 --ctx */
  LLMC_STOPPED_CANCELLED = 4, /* llmc_chat_cancel */
  LLMC_STOPPED_CALLBACK = 5,  /* the callback said so */
  LLMC_STOPPED_GRAMMAR = 6    /* nothing can follow in a text of the grammar */
} llmc_stopped;

/* Zero it, set `size`, then what is wanted. */
typedef struct llmc_chat_options {
  size_t size;             /* sizeof(llmc_chat_options) */
  size_t max_tokens;       /* 0: until it ends or the context is full */
  const char* const* stop; /* texts (UTF-8) that end the answer and are no part of it, whichever way
                              the tokens cut them; empty ones are ignored */
  size_t stop_count;
  /* Gets the answer as it comes: whole characters of UTF-8, zero-terminated too, valid during the
   * call. Not 0: stop. May be NULL. */
  int (*text)(void* user, const char* text, size_t bytes);
  void* user;
  /* Not 0: when the context is full, the oldest turns are forgotten (without a template, messages),
   * what is left is run again, and the answer goes on. The system message and the last turn stay.
   * Mirostat goes on from where it was behind the last token that was not run again. */
  int forget_oldest;
} llmc_chat_options;

typedef struct llmc_chat_result {
  llmc_stopped why;
  int begun;            /* 0: cancelled before the messages were run; no answer was added */
  size_t tokens;        /* of the answer */
  size_t prompt_tokens; /* that were run before it, and again with forget_oldest */
  size_t kept_tokens;   /* of the conversation that were in the cache already */
  double prompt_seconds, seconds;
  size_t forgotten; /* messages, with forget_oldest */
} llmc_chat_result;

/* Lets the model answer what was added and adds the answer. `options` and `result` may be NULL. On
 * errors no answer is added: LLMC_ERROR_CONTEXT_FULL when the messages do not fit,
 * LLMC_ERROR_FORMAT when the template refuses them (llmc_chat_message says why), and what the
 * session says. During the call, in the callback too, only llmc_chat_cancel may be called for this
 * chat; what would change it is LLMC_ERROR_BUSY. */
llmc_status llmc_chat_answer(llmc_chat* chat, const llmc_chat_options* options,
                             llmc_chat_result* result);
/* What the last error was, as a sentence; or "". Valid until the next call with this chat. */
const char* llmc_chat_message(const llmc_chat* chat);
/* The last answer, zero-terminated; "" before the first. Valid until the next call. */
const char* llmc_chat_text(const llmc_chat* chat, size_t* bytes);

/* Ends the answer that is being made, after the token it is at (in the messages: after the chunk),
 * or else the next one at its start. From any thread and from a signal handler: it sets a lock-free
 * flag. */
void llmc_chat_cancel(llmc_chat* chat);

/* Holds each answer from here on to a grammar, which begins anew with every one; NULL: to none.
 * Kept, not copied, like llmc_set_grammar, whose statuses these are. */
llmc_status llmc_chat_set_grammar(llmc_chat* chat, llmc_grammar* grammar);

/* Takes the last message back: a question that was not answered, or an answer. */
llmc_status llmc_chat_drop_last(llmc_chat* chat);
/* Forgets all messages but a system message at the beginning, and their tokens. */
llmc_status llmc_chat_reset(llmc_chat* chat);

/* The messages as JSON, zero-terminated, as `llmc chat` saves them, and the cache of their tokens,
 * with which they need not be run again. Both are valid until the next llmc_chat_save of this chat.
 * `bytes` may be NULL; `cache` and `cache_bytes` both may, for the messages alone. (As a file for
 * `llmc chat`, the cache stands beside the JSON and is called "cache".) On errors there is "" and
 * no cache; LLMC_ERROR_STATE when it begins with tokens that are no part of the conversation. */
llmc_status llmc_chat_save(llmc_chat* chat, const char** json, size_t* bytes, const void** cache,
                           size_t* cache_bytes);
/* Takes saved messages in place of those there are; nothing is run. `cache`: what was saved with
 * them, or NULL. LLMC_ERROR_STATE and LLMC_ERROR_STATE_MODEL are about the cache (damaged, of other
 * messages, another model's): the messages are there, and the next answer runs their tokens. Any
 * other error, such as LLMC_ERROR_FORMAT, leaves all as it was. llmc_chat_message says what is
 * wrong. */
llmc_status llmc_chat_load(llmc_chat* chat, const char* json, size_t bytes, const void* cache,
                           size_t cache_bytes);

#ifdef __cplusplus
}
#endif

#endif /* LLMC_HOSTED_H */
