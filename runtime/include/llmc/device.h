/*
 * Accelerators: a device computes regions of the forward pass of a prompt while the CPU computes
 * the rest. C99 or C++. A model that was compiled with --accelerate takes one as
 * llmc_config.device; hosted.h has the device `reference`. docs/adding-a-device.md describes how to
 * write one.
 *
 * The forward pass of a chunk of tokens is a list of steps (llmc_model.steps). A step is a region,
 * which a device can compute, or belongs to the CPU: attention, rotations and the cache. Several
 * chunks of a prompt are in flight at the same time: while the CPU computes a step of one chunk,
 * the device computes a region of the next one. The results have the same bits as those without a
 * device.
 *
 * In this version of the interface a device computes a region by calling llmc_model.run_step, with
 * threads or processors that run the CPU's code and share its memory. A description of what a
 * region computes, for other processors, is not part of it yet. Threads of a device must have the
 * default floating-point mode, like those of the application.
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
#define LLMC_DEVICE_ABI 1u

/* Successive regions of one chunk. The struct is valid during submit; `run`, and all memory that it
 * points to, until the job is done or cancelled. */
typedef struct llmc_device_job {
  const llmc_model* model;
  /* Rows, scratch and weights of the chunk. Its parallel_for belongs to the CPU: the device must
   * not call it. */
  const llmc_run* run;
  uint32_t first_step, end_step; /* of llmc_model.run_step; all of them are regions */
} llmc_device_job;

/* Limit of a wait that ends only when the job does. */
#define LLMC_DEVICE_NO_LIMIT UINT32_MAX

enum {
  LLMC_DEVICE_RUNNING = 0,
  LLMC_DEVICE_DONE = 1, /* what the regions write is visible to the caller */
  LLMC_DEVICE_FAILED = 2
};

typedef struct llmc_device {
  uint32_t abi;  /* LLMC_DEVICE_ABI */
  uint32_t size; /* sizeof(llmc_device) */
  const char* name;
  void* user; /* first argument of the functions */
  /* Called once by llmc_session_init: the model, and the memory that jobs will use. `scratch` has
   * `scratch_bytes` bytes: that of all chunks in flight. The device must check llmc_model.abi. Any
   * other result than LLMC_OK ends llmc_session_init with it. */
  llmc_status (*prepare)(void* user, const llmc_model* model, const void* weights, void* scratch,
                         uint64_t scratch_bytes);
  /* Starts a job after all jobs before it. Returns its ticket, which is larger than those before,
   * or 0 if it cannot be started: then the CPU computes everything from now on. At most
   * LLMC_MAX_IN_FLIGHT jobs are in progress. */
  uint64_t (*submit)(void* user, const llmc_device_job* job);
  /* Waits for a job, at most `timeout_us` microseconds (0: not at all, LLMC_DEVICE_NO_LIMIT: until
   * it is done), and returns LLMC_DEVICE_…. A job that is done or has failed is forgotten. */
  int (*wait)(void* user, uint64_t ticket, uint32_t timeout_us);
  /* Ends all jobs. When it returns, the device uses none of their memory any more; until then the
   * session's call waits, also after a time-out. */
  void (*cancel)(void* user);
} llmc_device;

/* Returns LLMC_OK, or LLMC_ERROR_DEVICE if the session's device has failed or timed out: the tokens
 * of that call and all later ones are computed on the CPU, with the same bits. LLMC_ERROR_ARGUMENT:
 * session is NULL, or it has no device. */
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
