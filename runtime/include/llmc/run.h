/* Options of one run of a compiled plain graph: NAME_run_with in NAME.h. */
#ifndef LLMC_RUN_H
#define LLMC_RUN_H

#include "llmc/llmc.h"

/* Optional settings. Zero the struct, set `size`, then the fields you need. */
typedef struct llmc_run_options {
  size_t size;      /* sizeof(llmc_run_options) */
  uint32_t threads; /* worker slots, at most NAME_THREADS_MAX; 0: one or, with parallel_for,
                       NAME_THREADS_MAX */
  uint32_t cores;   /* LLMC_CORES_…; 0: the default of the target */
  llmc_parallel_for parallel_for; /* NULL: everything runs on the calling thread */
  void* parallel_user;
  const int64_t* dims; /* sizes of the open dims, in the order of NAME_DIM_<NAME>; NULL: their
                          upper bounds */
} llmc_run_options;

#endif
