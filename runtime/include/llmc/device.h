/*
 * Accelerators: a device computes regions of the forward pass of a prompt while the CPU computes
 * the rest. C99 or C++. A model that was compiled with --accelerate takes a device as
 * llmc_config.device; hosted.h has the devices `reference` and `opencl`. docs/adding-a-device.md
 * describes how to write one.
 *
 * The forward pass of a chunk of tokens is a list of steps (llmc_model.steps). A step is either a
 * region, which a device can compute, or work of the CPU, such as attention, rotations and the
 * cache. Several chunks of a prompt are in flight at the same time: while the CPU computes a step
 * of one chunk, the device computes a region of another one. The results have the same bits as
 * those without a device.
 *
 * A model contains each region twice: as code, which a device with the CPU's instruction set can
 * run (llmc_model.run_step), and as data, from which any other device can be programmed
 * (llmc_model.device_program). Threads of a device that run the code must have the default
 * floating-point mode, like those of the application.
 *
 * The runtime calls a device only from the thread that calls the session, never concurrently. The
 * device must outlive the session's last call.
 */
#ifndef LLMC_DEVICE_H
#define LLMC_DEVICE_H

#include "llmc/model.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Version of this interface. */
#define LLMC_DEVICE_ABI 2u

/* ---- Regions as data ---- */

/* Offset of an operand that an operation does not have, such as a bias. */
#define LLMC_DEVICE_NONE UINT64_MAX

/* A packed matrix in the weights, in panels of 8 rows. llmc/quant/f32.h, f16.h, q4.h and coded.h
 * define the layouts; the formats of q8.h and of 6 bits are LLMC_MATRIX_CODED. The product of a row
 * with an input has a defined order of operations: docs/numerics.md. */
enum { LLMC_MATRIX_F32 = 0, LLMC_MATRIX_F16 = 1, LLMC_MATRIX_Q4 = 2, LLMC_MATRIX_CODED = 3 };
enum { LLMC_ZERO_NONE = 0, LLMC_ZERO_INTEGER = 1, LLMC_ZERO_FLOAT = 2 };
typedef struct llmc_device_matrix {
  uint64_t offset; /* in bytes, in the weights; LLMC_DEVICE_NONE: there is no matrix */
  uint64_t bytes;
  uint32_t rows;        /* packed rows, a multiple of 8 */
  uint16_t kind;        /* LLMC_MATRIX_… */
  uint16_t bits;        /* LLMC_MATRIX_CODED: 4, 6 or 8 */
  uint16_t block;       /* LLMC_MATRIX_CODED: weights that share a scale: 16 to 256 */
  uint16_t scale_bytes; /* LLMC_MATRIX_CODED: 2 (f16) or 4 (f32) */
  uint16_t zero;        /* LLMC_MATRIX_CODED: LLMC_ZERO_… */
  uint16_t hadamard;    /* non-zero: the input is transformed before it is quantized */
} llmc_device_matrix;

/* Elementwise functions of x; from LLMC_FUNCTION_ADD on, of x and y. docs/numerics.md defines their
 * operations. */
enum {
  LLMC_FUNCTION_IDENTITY = 0,
  LLMC_FUNCTION_NEG,
  LLMC_FUNCTION_ABS,
  LLMC_FUNCTION_SQRT,
  LLMC_FUNCTION_RECIPROCAL,
  LLMC_FUNCTION_EXP,
  LLMC_FUNCTION_SIGMOID,
  LLMC_FUNCTION_SILU,
  LLMC_FUNCTION_RELU,
  LLMC_FUNCTION_TANH,
  LLMC_FUNCTION_ERF,
  LLMC_FUNCTION_GELU,
  LLMC_FUNCTION_GELU_TANH,
  LLMC_FUNCTION_ADD,
  LLMC_FUNCTION_SUB,
  LLMC_FUNCTION_MUL,
  LLMC_FUNCTION_DIV,
  LLMC_FUNCTION_MIN,
  LLMC_FUNCTION_MAX
};

enum { LLMC_NORM_NONE = 0, LLMC_NORM_RMS = 1, LLMC_NORM_LAYER = 2 };

/* Operations on all rows of a chunk. x, y and out are byte offsets in the chunk's scratch, of
 * contiguous rows f32[chunk][width]; they may be equal. A device may compute all llmc_model.chunk
 * rows, so that one program with a fixed number of rows serves every chunk: the rows from
 * llmc_run.count on are undefined before and after. */
enum {
  /* v = matrix . norm(x) + bias, for x of width k. matrix_2, if any, has more rows, which follow
   * those of matrix. out[n] = f(v); with y: out[n] = y + f(v). */
  LLMC_OP_LINEAR = 0,
  /* v as above, without matrix_2 and y. The panels of matrix alternate: gate, up, gate, …. out =
   * f(gate) * up, with n / 2 columns. */
  LLMC_OP_GATED_LINEAR,
  LLMC_OP_NORM,   /* out = norm(x), with y: y + norm(x); x has `parts` rows of n, each normalized */
  LLMC_OP_GATED,  /* out[n] = f(x) * y */
  LLMC_OP_BINARY, /* out[n] = f(x, y); without y: f(x, row in the weights); without both: f(x,
                     value) */
  LLMC_OP_UNARY   /* out[n] = f(x); LLMC_FUNCTION_IDENTITY: a copy */
};
/* Quantized rows of k floats have three parts, each padded to a multiple of 64 bytes: codes
 * i8[pairs of blocks of 32][2][32], sums of the codes of each block i16[pairs][2], and scales
 * f32[superblocks of 256]. Codes after element k of the last block are 0. If the number of blocks
 * is odd, the second block of the last pair is undefined. */
typedef struct llmc_device_op {
  uint16_t kind;      /* LLMC_OP_… */
  uint16_t function;  /* LLMC_FUNCTION_… */
  uint16_t norm;      /* LLMC_NORM_…, of the input (linear) or of LLMC_OP_NORM */
  uint16_t quantized; /* linear: non-zero if the CPU has quantized x: see above */
  uint32_t n, k, parts;
  float epsilon; /* of the norm */
  float value;
  uint64_t x, y, out; /* in scratch */
  llmc_device_matrix matrix, matrix_2;
  uint64_t bias;                   /* in the weights: f32[packed rows] */
  uint64_t norm_weight, norm_bias; /* in the weights: f32[k], or f32[n] of LLMC_OP_NORM */
  uint64_t row;                    /* in the weights: f32[n] */
  uint64_t number;                 /* in the weights: f32[1], replaces `value` */
} llmc_device_op;

/* Rows that are copied between the CPU and a device that does not share its memory. */
typedef struct llmc_device_copy {
  uint64_t offset; /* in scratch */
  uint32_t row_bytes;
  uint32_t from_device; /* 0: to the device, before the step's operations; 1: back, after them */
} llmc_device_copy;

/* Step i consists of ops[step_ops[i]] to ops[step_ops[i + 1] - 1], and of the copies between the
 * same elements of step_copies. Steps of the CPU have no operations. */
typedef struct llmc_device_program {
  const llmc_device_op* ops;
  const llmc_device_copy* copies;
  const uint32_t* step_ops;    /* [steps + 1] */
  const uint32_t* step_copies; /* [steps + 1] */
} llmc_device_program;

/* ---- Devices ---- */

/* Successive regions of one chunk. The struct is valid during submit; `run`, and all memory that it
 * points to, until the job is done or cancelled. */
typedef struct llmc_device_job {
  const llmc_model* model;
  /* Rows, scratch and weights of the chunk. Its parallel_for belongs to the CPU: the device must
   * not call it. */
  const llmc_run* run;
  uint32_t first_step, end_step; /* of llmc_model.run_step, end_step exclusive; all are regions */
} llmc_device_job;

/* Value of `timeout_us` to wait without a time limit. */
#define LLMC_DEVICE_NO_LIMIT UINT32_MAX

enum {
  LLMC_DEVICE_RUNNING = 0,
  LLMC_DEVICE_DONE = 1, /* the results of the regions are visible to the caller */
  LLMC_DEVICE_FAILED = 2
};

typedef struct llmc_device {
  uint32_t abi;  /* LLMC_DEVICE_ABI */
  uint32_t size; /* sizeof(llmc_device) */
  const char* name;
  void* user; /* first argument of the functions */
  /* Called by llmc_session_init with the model and the memory that jobs will use. `scratch` has
   * `scratch_bytes` bytes: llmc_model.in_flight times llmc_model.scratch_bytes. The device must
   * check llmc_model.abi. It releases what an earlier call prepared: a device computes for the
   * session that was initialized last, and refuses the jobs of others. A result other than LLMC_OK
   * makes llmc_session_init fail with this status. */
  llmc_status (*prepare)(void* user, const llmc_model* model, const void* weights, void* scratch,
                         uint64_t scratch_bytes);
  /* Starts a job, which runs after all earlier jobs. Returns its ticket, which is larger than all
   * earlier tickets. Returns 0 if the job cannot be started; the CPU then computes everything from
   * now on. At most LLMC_MAX_IN_FLIGHT jobs are in progress. */
  uint64_t (*submit)(void* user, const llmc_device_job* job);
  /* Waits for a job, at most `timeout_us` microseconds (0: not at all, LLMC_DEVICE_NO_LIMIT: until
   * it is done), and returns LLMC_DEVICE_…. After LLMC_DEVICE_DONE or LLMC_DEVICE_FAILED the ticket
   * is no longer valid. */
  int (*wait)(void* user, uint64_t ticket, uint32_t timeout_us);
  /* Cancels all jobs. Returns when the device no longer uses their memory; the session's call waits
   * for this, even after a time-out. */
  void (*cancel)(void* user);
  /* Cancels all jobs, and stops using the memory that prepare() was given. The application calls it
   * before it frees the arena or the weights but keeps the device. Jobs are refused until the next
   * prepare(). */
  void (*release)(void* user);
  /* Returns the reason for the last failure as text for a message, or NULL. The pointer may be
   * NULL. */
  const char* (*message)(void* user);
} llmc_device;

/* Returns LLMC_OK, or LLMC_ERROR_DEVICE if the session's device has failed, refused a job or timed
 * out: the remaining tokens of that call and all later ones are computed on the CPU, with the same
 * bits. LLMC_ERROR_ARGUMENT: session is NULL, or it has no device. */
llmc_status llmc_device_status(const llmc_session* session);
/* Returns the number of jobs that the session's device has accepted. */
uint64_t llmc_device_jobs(const llmc_session* session);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* LLMC_DEVICE_H */
