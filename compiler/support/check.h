#pragma once

namespace llmc {

/// Prints the violated invariant and aborts. Such a failure is a bug in llmc, never a user error.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace llmc

/// Checks an invariant of the compiler itself, also in release builds.
#define LLMC_CHECK(condition) \
  ((condition) ? (void)0 : ::llmc::check_failed(__FILE__, __LINE__, #condition))
