#include "compiler/support/check.h"

#include <cstdio>
#include <cstdlib>

namespace llmc {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "llmc: internal error: %s:%d: broken invariant: %s\n", file, line,
               condition);
  std::abort();
}

}  // namespace llmc
