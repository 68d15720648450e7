/*
 * The four functions that a compiled model needs. A compiler may turn a copy loop into a call of
 * memcpy: clang does not with -ffreestanding; gcc also needs -fno-tree-loop-distribute-patterns.
 */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) word;

static int whole_words(const void* a, const void* b, size_t bytes) {
  return (((uintptr_t)a | (uintptr_t)b | bytes) & (sizeof(word) - 1)) == 0;
}

/* Copies forwards; the ranges may overlap if `to` comes before `from`. */
static void* copy_forward(void* to, const void* from, size_t bytes) {
  size_t i;
  if (whole_words(to, from, bytes)) {
    for (i = 0; i < bytes / sizeof(word); ++i) ((word*)to)[i] = ((const word*)from)[i];
  } else {
    for (i = 0; i < bytes; ++i) ((unsigned char*)to)[i] = ((const unsigned char*)from)[i];
  }
  return to;
}

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  return copy_forward(to, from, bytes);
}

void* memmove(void* to, const void* from, size_t bytes) {
  if ((uintptr_t)to - (uintptr_t)from >= bytes) return copy_forward(to, from, bytes);
  /* Overlap with `to` after `from`: copy backwards. */
  while (bytes-- > 0) ((unsigned char*)to)[bytes] = ((const unsigned char*)from)[bytes];
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  size_t i;
  for (i = 0; i < bytes; ++i) ((unsigned char*)to)[i] = (unsigned char)value;
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const unsigned char* x = a;
  const unsigned char* y = b;
  for (; bytes > 0; --bytes, ++x, ++y) {
    if (*x != *y) return *x < *y ? -1 : 1;
  }
  return 0;
}
