#pragma once

#include <stddef.h>
#include <stdint.h>

/// The operating system functions of a runner: raw Linux system calls, without a C library.
namespace llmc::runner {

/// Ends the program and all its threads.
[[noreturn]] void exit_program(int code);

/// Reads exactly `bytes` bytes from standard input. Returns false at its end or on an error.
bool read_all(void* data, uint64_t bytes);
/// Writes all `bytes` bytes to standard output. Returns false if the reader has closed it, or on
/// another error.
bool write_all(const void* data, uint64_t bytes);

/// Returns new zeroed pages, aligned to 4096 bytes; nullptr if there is not enough memory. Pages
/// that are never accessed use no memory.
void* allocate(uint64_t bytes);
void release(void* memory, uint64_t bytes);

/// Maps a file read-only and sets *bytes to its size. Returns nullptr if it cannot be opened or
/// mapped, or is empty.
const void* map_file(const char* path, uint64_t* bytes);

/// Runs entry(argument) on a new thread, which ends when `entry` returns. Returns false if the
/// thread cannot be created.
bool start_thread(void (*entry)(void*), void* argument);

/// Sleeps while *word equals `value`. May return early.
void wait_while(uint32_t* word, uint32_t value);
/// Wakes all threads that sleep on the word.
void wake_all(uint32_t* word);
/// Yields the core to another thread.
void yield();

}  // namespace llmc::runner

/// The main function of a runner, which each runner defines. Returns the exit code.
extern "C" int llmc_runner_main();
