#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace llmc::tests {

/// A program on a terminal of its own, as a person meets it.
class Terminal {
 public:
  /// Starts argv[0] with these arguments; `environment` is added to this process'.
  Terminal(const std::vector<std::string>& argv, const std::vector<std::string>& environment = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Keys: text, "\r", "\x03", …
  void type(const std::string& keys);
  /// Waits until `text` appears in what was shown since the last wait. False after `patience` or at
  /// the program's end.
  bool wait_for(const std::string& text, std::chrono::seconds patience = std::chrono::seconds(120));
  /// All that was shown.
  const std::string& shown() const { return shown_; }
  void send(int signal) const;
  /// Whether it echoes and gives out whole lines, as it does before a program edits lines itself.
  bool is_as_usual() const;
  /// Waits for the program's end; its exit code, -1 when it does not end.
  int wait_for_end();

 private:
  bool read_some(std::chrono::milliseconds patience);

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string shown_;
  std::size_t seen_ = 0;
};

}  // namespace llmc::tests
