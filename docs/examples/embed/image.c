/*
 * Continues a prompt with an image. The rows that the image encoder computes are appended in place
 * of the id that marks the image:
 *
 *     embed_image PIXELS MARK COUNT ID ID …      prints COUNT generated ids, one per line
 *
 * PIXELS is a file with the encoder's input, 32-bit floats in the order of its dims: an image that
 * has been resized and normalized. MARK is the id of the image in the prompt (image_token_id or
 * image_token_index in config.json). build.sh builds it against a bundle whose image encoder reads
 * pixels of a fixed size and nothing else.
 */
#include <stdio.h>

#include "generate.h"

#define MODEL(name) JOIN(MODEL_MACRO, name)

static float pixels[MODEL(_IMAGE_INPUT_0_BYTES) / sizeof(float)];
static float rows[MODEL(_IMAGE_ROWS) * MODEL(_EMBEDDING_WIDTH)];

/* Reads the pixels. Returns 0 if the file has all of them. */
static int read_pixels(const char* path) {
  FILE* const file = fopen(path, "rb");
  size_t read = 0;
  if (file == NULL) return 1;
  read = fread(pixels, 1, sizeof pixels, file);
  fclose(file);
  return read != sizeof pixels;
}

int main(int argc, char** argv) {
  llmc_session* session;
  llmc_status status;
  size_t row_count = 0;
  int32_t token;
  int i;
  if (argc < 5 || number(argv[3]) < 0) {
    fprintf(stderr, "usage: %s PIXELS MARK COUNT ID…\n", argv[0]);
    return 2;
  }
  if (read_pixels(argv[1]) != 0) {
    fprintf(stderr, "%s: %s does not have %u bytes\n", argv[0], argv[1], (unsigned)sizeof pixels);
    return 1;
  }
  status = MODEL_INIT(&session, arena, sizeof arena, NULL);
  if (status == LLMC_OK)
    status = JOIN(MODEL_PREFIX, _encode_image)(session, pixels, rows, &row_count);
  for (i = 4; status == LLMC_OK && i < argc; ++i) {
    token = number(argv[i]);
    status = token == number(argv[2]) ? llmc_append_embeddings(session, rows, row_count, NULL)
                                      : llmc_append(session, token);
  }
  for (i = 0; status == LLMC_OK && i < number(argv[3]); ++i) {
    status = llmc_step(session, &token);
    if (status == LLMC_OK) printf("%d\n", (int)token);
  }
  if (status != LLMC_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], llmc_status_text(status));
    return 1;
  }
  return ferror(stdout) || fflush(stdout) != 0;
}
