#pragma once

#include "protocol.h"
#include "system.h"

namespace llmc::runner {

/// The connection to the program that started this one, over standard input and output.
class Connection {
 public:
  /// Reads the next request and its data. Returns false at the end of the input or on an error.
  bool next() {
    if (!read_all(&request_, sizeof request_) || request_.bytes > kMaxRequestBytes) return false;
    if (request_.bytes > capacity_) {
      if (data_ != nullptr) release(data_, capacity_);
      capacity_ = 2 * request_.bytes;
      data_ = static_cast<unsigned char*>(allocate(capacity_));
      if (data_ == nullptr) return false;
    }
    return read_all(data_, request_.bytes);
  }
  const RequestHeader& request() const { return request_; }
  /// Returns the request's data, aligned to 4096 bytes; valid until the next request.
  const unsigned char* data() const { return data_; }
  /// Returns the data from byte `at` on.
  template <class T>
  const T* data_as(uint64_t at = 0) const {
    return reinterpret_cast<const T*>(data_ + at);
  }

  /// Sends a reply with its data. Returns false if it cannot be written.
  bool reply(uint32_t status, int32_t value, uint64_t position, const void* data = nullptr,
             uint64_t bytes = 0) {
    const ReplyHeader header{status, value, position, bytes};
    return write_all(&header, sizeof header) && write_all(data, bytes);
  }
  bool fail(uint32_t status, uint64_t position, const char* message) {
    uint64_t length = 0;
    while (message[length] != 0) ++length;
    return reply(status, 0, position, message, length);
  }

 private:
  RequestHeader request_{};
  unsigned char* data_ = nullptr;
  uint64_t capacity_ = 0;
};

/// Copies the path after a Start to `path`, zero-terminated. Returns false if it does not fit.
template <size_t N>
bool copy_path(const Connection& connection, char (&path)[N]) {
  const uint64_t length = connection.request().bytes - sizeof(Start);
  if (length >= N) return false;
  for (uint64_t i = 0; i < length; ++i)
    path[i] = static_cast<char>(connection.data()[sizeof(Start) + i]);
  path[length] = 0;
  return true;
}

}  // namespace llmc::runner
