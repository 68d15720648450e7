#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/llmc.h"

namespace llmc::core {

/// Builds one line for the log callback. A long line is truncated.
class Message {
 public:
  Message& text(const char* text) {
    while (*text != 0 && used_ + 1 < sizeof(line_)) line_[used_++] = *text++;
    return *this;
  }
  /// Appends ": " and the reason; has no effect if the reason is NULL or empty.
  Message& because(const char* reason) {
    if (reason == nullptr || *reason == 0) return *this;
    return text(": ").text(reason);
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
  /// Calls the application's log callback, if any.
  void send(const llmc_config& config, int level) {
    if (config.log == nullptr) return;
    line_[used_] = 0;
    config.log(config.log_user, level, line_);
  }

 private:
  char line_[200];
  size_t used_ = 0;
};

inline bool is_token(int32_t token, uint32_t vocab) {
  return token >= 0 && static_cast<uint32_t>(token) < vocab;
}

/// Logs that a token is outside the vocabulary, with its index in an array unless `index` is null.
/// Returns LLMC_ERROR_TOKEN.
inline llmc_status refuse_token(const llmc_config& config, int32_t token, uint32_t vocab,
                                const size_t* index = nullptr) {
  Message message;
  message.text("token ").signed_number(token);
  if (index != nullptr) message.text(" at index ").number(*index);
  message.text(" is outside the vocabulary of ").number(vocab).send(config, LLMC_LOG_ERROR);
  return LLMC_ERROR_TOKEN;
}

}  // namespace llmc::core
