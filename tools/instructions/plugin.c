/*
 * A plugin of qemu's user emulation that counts executed instructions, by function of the guest's
 * program and by class (classes.h):
 *
 *     qemu-aarch64 -plugin count.so,out=FILE[,places=on] PROGRAM …
 *
 * FILE gets lines of fields between tabs: "total", or "function" and its name, then the counts:
 * all, vector, scalar float; with places=on also "place", the address, its count, and its class.
 * What is counted is whole blocks between jumps, so a program that runs the same way twice has the
 * same counts twice; with several threads the sums stay exact.
 */
#include <inttypes.h>
#include <qemu-plugin.h>
#include <stdio.h>
#include <stdlib.h>

#include "classes.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

typedef struct {
  uint64_t address;
  uint32_t function;
  enum instruction_class class;
} Place;

typedef struct Block {
  struct Block* next;
  qemu_plugin_u64 executed;
  size_t count;
  Place places[];
} Block;

typedef struct {
  const char* name;
  uint64_t counts[kClasses];
} Function;

static const char* out;
static bool with_places;
static enum { kArm64, kLoongArch64, kX86 } architecture;
static Block* blocks;
static Function* functions;
static uint32_t function_count;

static void* checked(void* memory) {
  if (memory == NULL) abort();
  return memory;
}

static uint32_t function_of(const struct qemu_plugin_insn* instruction) {
  static uint32_t last;
  const char* name = qemu_plugin_insn_symbol(instruction);
  if (name == NULL || name[0] == '\0') name = "?";
  if (last < function_count && strcmp(functions[last].name, name) == 0) return last;
  for (last = 0; last < function_count; ++last) {
    if (strcmp(functions[last].name, name) == 0) return last;
  }
  functions = checked(realloc(functions, ++function_count * sizeof *functions));
  memset(&functions[last], 0, sizeof *functions);
  functions[last].name = checked(strdup(name));
  return last;
}

static enum instruction_class class_of(const struct qemu_plugin_insn* instruction) {
  unsigned char bytes[16] = {0};
  uint32_t code;
  const size_t size = qemu_plugin_insn_data(instruction, bytes, sizeof bytes);
  if (architecture == kX86) return classify_x86_64(bytes, size);
  memcpy(&code, bytes, sizeof code);
  return architecture == kArm64 ? classify_arm64(code) : classify_loongarch64(code);
}

/* qemu translates one block at a time. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* translation) {
  const size_t count = qemu_plugin_tb_n_insns(translation);
  Block* block = checked(malloc(sizeof *block + count * sizeof block->places[0]));
  (void)id;
  for (size_t i = 0; i < count; ++i) {
    const struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(translation, i);
    block->places[i] = (Place){qemu_plugin_insn_vaddr(instruction), function_of(instruction),
                               class_of(instruction)};
  }
  block->count = count;
  block->executed = (qemu_plugin_u64){qemu_plugin_scoreboard_new(sizeof(uint64_t)), 0};
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(translation, QEMU_PLUGIN_INLINE_ADD_U64,
                                                    block->executed, 1);
}

static void write_counts(FILE* file, const char* kind, const char* name, const uint64_t* counts) {
  fprintf(file, "%s\t%s%s%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", kind, name, name[0] ? "\t" : "",
          counts[kOther] + counts[kVector] + counts[kScalarFloat], counts[kVector],
          counts[kScalarFloat]);
}

static void finished(qemu_plugin_id_t id, void* unused) {
  uint64_t total[kClasses] = {0};
  FILE* file = fopen(out, "w");
  (void)id;
  (void)unused;
  if (file == NULL) {
    perror(out);
    return;
  }
  for (const Block* block = blocks; block != NULL; block = block->next) {
    const uint64_t executed = qemu_plugin_u64_sum(block->executed);
    for (size_t i = 0; executed > 0 && i < block->count; ++i) {
      const Place* place = &block->places[i];
      functions[place->function].counts[place->class] += executed;
      total[place->class] += executed;
      if (with_places) {
        fprintf(file, "place\t%#" PRIx64 "\t%" PRIu64 "\t%d\n", place->address, executed,
                (int)place->class);
      }
    }
  }
  for (uint32_t i = 0; i < function_count; ++i) {
    write_counts(file, "function", functions[i].name, functions[i].counts);
  }
  write_counts(file, "total", "", total);
  if (fclose(file) != 0) perror(out);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                           char** argv) {
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "out=", 4) == 0) {
      out = checked(strdup(argv[i] + 4));
    } else if (strcmp(argv[i], "places=on") == 0) {
      with_places = true;
    } else {
      fprintf(stderr, "count: unknown argument %s\n", argv[i]);
      return -1;
    }
  }
  if (out == NULL) {
    fprintf(stderr, "count: out=FILE is missing\n");
    return -1;
  }
  if (strcmp(info->target_name, "aarch64") == 0) {
    architecture = kArm64;
  } else if (strcmp(info->target_name, "loongarch64") == 0) {
    architecture = kLoongArch64;
  } else if (strcmp(info->target_name, "x86_64") == 0) {
    architecture = kX86;
  } else {
    fprintf(stderr, "count: no classes for %s\n", info->target_name);
    return -1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, NULL);
  return 0;
}
