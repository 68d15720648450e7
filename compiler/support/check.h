#pragma once

namespace llmc {

/// Prints the broken invariant and aborts: a bug in llmc, never a user's mistake.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace llmc

/// An invariant of the compiler itself. Kept in release builds.
#define LLMC_CHECK(condition) \
  ((condition) ? (void)0 : ::llmc::check_failed(__FILE__, __LINE__, #condition))
