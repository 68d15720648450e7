/*
 * Continues a text with a JSON document that is valid for a schema, which is read at run time: the
 * model's archive and libllmc_hosted.a.
 *
 *     embed_schema COUNT TEXT SCHEMA_FILE BUNDLE/NAME.tokenizer.bin [BUNDLE/NAME.chat.json]
 *
 * Exit code 0 when the document is complete within COUNT tokens.
 */
#include <stdio.h>
#include <string.h>

#include "generate.h"
#include "llmc/hosted.h"

/* What the grammar remembers of the text so far. */
static unsigned char memory[LLMC_GRAMMAR_BYTES] __attribute__((aligned(8)));

static llmc_status print_document(llmc_session* session, const llmc_tokenizer* tokenizer,
                                  llmc_grammar* grammar, int32_t wanted, int* state) {
  llmc_decoder* decoder;
  const char* piece;
  llmc_status status = llmc_set_grammar(session, grammar); /* from here on */
  if (status == LLMC_OK) status = llmc_decoder_create(tokenizer, 0, &decoder);
  if (status != LLMC_OK) return status;
  while (status == LLMC_OK && *state != LLMC_GRAMMAR_COMPLETE && wanted-- > 0) {
    int32_t token;
    status = llmc_step(session, &token);
    if (status == LLMC_OK) status = llmc_decoder_add(decoder, token, &piece, NULL);
    if (status == LLMC_OK) printf("%s", piece);
    if (status == LLMC_OK) status = llmc_text_state(session, state);
  }
  llmc_decoder_free(decoder);
  printf("\n");
  return status;
}

int main(int argc, char** argv) {
  static char schema[1 << 20], message[1000];
  static int32_t prompt[MODEL_CTX];
  const void* tables = NULL;
  size_t bytes, tables_bytes = 0, count = 0;
  int state = LLMC_GRAMMAR_INCOMPLETE;
  llmc_grammar_options options;
  llmc_tokenizer* tokenizer = NULL;
  llmc_session* session = NULL;
  llmc_grammar* grammar = NULL;
  llmc_status status;
  FILE* file;
  if (argc < 5 || number(argv[1]) < 0) {
    fprintf(stderr, "usage: %s COUNT TEXT SCHEMA_FILE TOKENIZER [CHAT.json]\n", argv[0]);
    return 2;
  }
  file = fopen(argv[3], "rb");
  if (file == NULL) {
    perror(argv[3]);
    return 1;
  }
  bytes = fread(schema, 1, sizeof schema, file);
  fclose(file);

  status = MODEL_INIT(&session, arena, sizeof arena, NULL);
  if (status == LLMC_OK) status = llmc_tokenizer_load(argv[4], &tokenizer, message, sizeof message);
  if (status == LLMC_OK) {
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.vocab = llmc_vocabulary_size(session);
    options.chat_path = argc > 5 ? argv[5] : NULL;
    status = llmc_grammar_compile(tokenizer, LLMC_GRAMMAR_JSON_SCHEMA, schema, bytes, &options,
                                  &tables, &tables_bytes, message, sizeof message);
  }
  if (status == LLMC_OK)
    status = llmc_grammar_init(memory, sizeof memory, tables, tables_bytes, &grammar);
  if (status == LLMC_OK)
    status = llmc_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), LLMC_ENCODE_PREFIX, prompt,
                                   MODEL_CTX, &count);
  if (status == LLMC_OK) status = llmc_prefill(session, prompt, count, NULL);
  if (status == LLMC_OK)
    status = print_document(session, tokenizer, grammar, number(argv[1]), &state);
  if (status != LLMC_OK)
    fprintf(stderr, "%s: %s\n", argv[0], *message != '\0' ? message : llmc_status_text(status));
  llmc_grammar_tables_free(tables); /* the grammar is not used any more */
  llmc_tokenizer_free(tokenizer);
  return status != LLMC_OK || state == LLMC_GRAMMAR_INCOMPLETE;
}
