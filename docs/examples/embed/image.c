/*
 * Continues a prompt with an image, with two compiled models: the vision encoder, a function, and
 * the decoder. The encoder's rows are appended in place of the id that marks the image:
 *
 *     embed_image PIXELS MARK COUNT ID ID …      prints COUNT generated ids, one per line
 *
 * PIXELS is a file with the encoder's input, 32-bit floats in the order of its dims: an image that
 * has been resized and normalized. MARK is the id of the image in the prompt (image_token_id or
 * image_token_index in config.json). Links the archives of both models; see image.sh.
 */
#include <stdio.h>

#include "generate.h"
#include VISION_HEADER

#define VISION(name) JOIN(VISION_MACRO, name)
#define ROW_BYTES (JOIN(MODEL_MACRO, _EMBEDDING_WIDTH) * sizeof(float))

static unsigned char vision_arena[VISION(_ARENA_BYTES)] __attribute__((aligned(64)));
static float pixels[VISION(_INPUT_0_BYTES) / sizeof(float)];
static float rows[VISION(_OUTPUT_0_BYTES) / sizeof(float)];

/* Reads the pixels and computes the rows of the image. Returns 0 if both succeed. */
static int encode_image(const char* path) {
  const void* inputs[VISION(_INPUTS)];
  void* outputs[VISION(_OUTPUTS)];
  FILE* const file = fopen(path, "rb");
  size_t read = 0;
  if (file == NULL) return 1;
  read = fread(pixels, 1, sizeof pixels, file);
  fclose(file);
  inputs[0] = pixels;
  outputs[0] = rows;
  return read != sizeof pixels || JOIN(VISION_PREFIX, _run)(inputs, outputs, vision_arena) != 0;
}

int main(int argc, char** argv) {
  llmc_session* session;
  llmc_status status;
  int32_t token;
  int i;
  if (argc < 5 || number(argv[3]) < 0) {
    fprintf(stderr, "usage: %s PIXELS MARK COUNT ID…\n", argv[0]);
    return 2;
  }
  if (encode_image(argv[1]) != 0) {
    fprintf(stderr, "%s: %s does not have %u bytes\n", argv[0], argv[1], (unsigned)sizeof pixels);
    return 1;
  }
  status = MODEL_INIT(&session, arena, sizeof arena, NULL);
  for (i = 4; status == LLMC_OK && i < argc; ++i) {
    token = number(argv[i]);
    status = token == number(argv[2])
                 ? llmc_append_embeddings(session, rows, sizeof rows / ROW_BYTES, NULL)
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
