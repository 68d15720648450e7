/*
 * A language model on bare metal: no operating system, no C library, no allocation. Continues a
 * prompt, writes the text to the serial port, reports the flash and RAM in use, and powers off.
 *
 * start.S calls firmware_main after it has set up memory and floating point.
 */
#include "board.h"
#include "pieces.h" /* llmc tokenize BUNDLE --c-table: token ids to text */
#include "prompt.h" /* PROMPT_IDS: llmc tokenize BUNDLE TEXT; TOKENS: maximum to generate */
#include "tinyfable.h"

static unsigned char arena[TINYFABLE_ARENA_BYTES] __attribute__((aligned(LLMC_ALIGNMENT)));

/* Positions in the image, from sections.ld: only the addresses are meaningful. */
extern const char image_start[], image_end[], weights_start[], weights_end[], prompt_start[],
    prompt_end[], model_start[], model_end[], program_start[], program_end[], data_start[],
    data_end[], bss_start[], bss_end[], stack_start[], stack_end[];

static void put_text(const char* text) {
  for (; *text != '\0'; ++text) board_put(*text);
}

static void put_number(size_t number, size_t width) {
  char digits[20];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  for (; width > count; --width) board_put(' ');
  while (count > 0) board_put(digits[--count]);
}

static void put_piece(int32_t token) {
  static int spaces_to_drop = PIECE_LEADING_SPACES_DROPPED;
  uint32_t i;
  for (i = piece_start[token]; i < piece_start[token + 1]; ++i) {
    if (spaces_to_drop > 0) {
      --spaces_to_drop;
      if (piece_text[i] == ' ') continue;
      spaces_to_drop = 0;
    }
    board_put((char)piece_text[i]);
  }
}

static int ends_text(int32_t token) {
  static const int32_t stop[] = TINYFABLE_STOP_IDS;
  int i;
  for (i = 0; i < TINYFABLE_STOP_COUNT; ++i) {
    if (token == stop[i]) return 1;
  }
  return 0;
}

static llmc_status generate(void) {
  static const int32_t prompt[] = {PROMPT_IDS};
  const size_t count = sizeof prompt / sizeof prompt[0];
  llmc_session* session;
  size_t i;
  /* After the compiled-in system prompt, if any, whose tokens are already in the cache. */
  llmc_status status = tinyfable_init(&session, arena, sizeof arena, NULL);
  if (status == LLMC_OK) status = llmc_prefill(session, prompt, count, NULL);
  if (status != LLMC_OK) return status;
  for (i = 0; i < count; ++i) put_piece(prompt[i]);
  for (i = 0; i < TOKENS; ++i) {
    int32_t token;
    status = llmc_sample(session, &token);
    if (status != LLMC_OK || ends_text(token)) return status;
    put_piece(token);
    if (i + 1 < TOKENS) status = llmc_append(session, token);
    if (status != LLMC_OK) return status;
  }
  return LLMC_OK;
}

static void put_bytes(const char* what, size_t bytes) {
  put_text(what);
  put_number(bytes, 9);
  board_put('\n');
}

/* start.S fills the stack with ones: bytes that have changed were used. */
static size_t stack_used(void) {
  const unsigned char* lowest = (const unsigned char*)stack_start;
  while (lowest < (const unsigned char*)stack_end && *lowest == 0xff) ++lowest;
  return (size_t)((const unsigned char*)stack_end - lowest);
}

static void put_sizes(void) {
  const size_t data = (size_t)(data_end - data_start), bss = (size_t)(bss_end - bss_start);
  const size_t stack = (size_t)(stack_end - stack_start);
  const size_t prompt = (size_t)(prompt_end - prompt_start);
  put_bytes("flash         ", (size_t)(image_end - image_start));
  put_bytes("  weights     ", (size_t)(weights_end - weights_start));
  if (prompt != 0) put_bytes("  prompt      ", prompt);
  put_bytes("  model code  ", (size_t)(model_end - model_start));
  put_bytes("  program     ", (size_t)(program_end - program_start));
  put_bytes("ram           ", data + bss + stack);
  put_bytes("  arena       ", sizeof arena);
  put_bytes("  other data  ", data + bss - sizeof arena);
  put_bytes("  stack       ", stack);
  put_bytes("    used      ", stack_used());
}

_Noreturn void firmware_main(void) {
  llmc_status status;
  board_init();
  status = generate();
  board_put('\n');
  if (status != LLMC_OK) {
    put_text("error: ");
    put_text(llmc_status_text(status));
    board_put('\n');
  } else {
    put_sizes();
  }
  board_power_off();
}

static void put_register(const char* what, uint64_t value) {
  int shift;
  put_text(what);
  for (shift = 60; shift >= 0; shift -= 4) board_put("0123456789abcdef"[value >> shift & 15]);
  board_put('\n');
}

/* start.S calls this on an empty stack after an unexpected exception. */
_Noreturn void firmware_fault(const char* what, uint64_t cause, uint64_t address, uint64_t where) {
  put_text("\nfault: ");
  put_text(what);
  put_register("\n  cause   ", cause);
  put_register("  address ", address);
  put_register("  at      ", where);
  board_power_off();
}
