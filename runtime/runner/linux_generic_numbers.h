#pragma once

/// System call numbers of the architectures that use the common table of Linux
/// (asm-generic/unistd.h).
namespace llmc::runner {

enum CallNumber : long {
  kOpenAt = 56,
  kClose = 57,
  kSeek = 62,
  kRead = 63,
  kWrite = 64,
  kExitGroup = 94,
  kFutex = 98,
  kYield = 124,
  kUnmap = 215,
  kMap = 222,
};

}  // namespace llmc::runner
