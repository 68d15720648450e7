#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/llmc.h"

namespace llmc::core {

/// One line for the log callback, cut when it does not fit.
class Message {
 public:
  Message& text(const char* text) {
    while (*text != 0 && used_ + 1 < sizeof(line_)) line_[used_++] = *text++;
    return *this;
  }
  Message& number(uint64_t value) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (count > 0 && used_ + 1 < sizeof(line_)) line_[used_++] = digits[--count];
    return *this;
  }
  Message& signed_number(int64_t value) {
    if (value >= 0) return number(static_cast<uint64_t>(value));
    return text("-").number(0 - static_cast<uint64_t>(value));
  }
  /// Hands the line to the application, when it asked for it.
  void send(const llmc_config& config, int level) {
    if (config.log == nullptr) return;
    line_[used_] = 0;
    config.log(config.log_user, level, line_);
  }

 private:
  char line_[200];
  size_t used_ = 0;
};

}  // namespace llmc::core
