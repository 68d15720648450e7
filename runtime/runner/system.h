#pragma once

#include <stddef.h>
#include <stdint.h>

/// The operating system as a runner sees it: no C library, raw Linux system calls.
namespace llmc::runner {

/// Ends the program with all its threads.
[[noreturn]] void exit_program(int code);

/// All `bytes` from standard input; false at its end or on an error.
bool read_all(void* data, uint64_t bytes);
/// All `bytes` to standard output; false when nobody reads it.
bool write_all(const void* data, uint64_t bytes);

/// Fresh zero pages, at a multiple of 4096; nullptr when there are none. Pages that are never
/// touched cost nothing.
void* allocate(uint64_t bytes);
void release(void* memory, uint64_t bytes);

/// A file's content, read-only; nullptr when it cannot be opened or is empty.
const void* map_file(const char* path, uint64_t* bytes);

/// Runs entry(argument) on a thread of its own, which ends when it returns.
bool start_thread(void (*entry)(void*), void* argument);

/// Sleeps while *word is `value`, perhaps shorter.
void wait_while(uint32_t* word, uint32_t value);
/// Wakes all who sleep on the word.
void wake_all(uint32_t* word);
/// Lets another thread have the core.
void yield();

}  // namespace llmc::runner

/// What the program does; its result is the exit code. Each runner defines one.
extern "C" int llmc_runner_main();
