#include "tools/llmc/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace llmc::cli {
namespace {

class PlainReader final : public LineReader {
 public:
  explicit PlainReader(Interrupts* interrupts) : interrupts_(interrupts) {}

  Event read(const std::string& prompt, std::string& line) override {
    if (interrupts_ != nullptr) {
      std::fputs(prompt.c_str(), stdout);
      std::fflush(stdout);
    }
    for (;;) {
      if (const std::size_t end = buffer_.find('\n'); end != buffer_.npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        if (line.ends_with('\r')) line.pop_back();
        return Event::kLine;
      }
      if (interrupts_ != nullptr && interrupts_->take()) {
        buffer_.clear();
        return Event::kInterrupt;
      }
      pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0},
                          {interrupts_ != nullptr ? interrupts_->fd() : -1, POLLIN, 0}};
      if (::poll(waiting, 2, -1) < 0 || (waiting[1].revents & POLLIN) != 0) continue;
      char bytes[4096];
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n > 0) {
        buffer_.append(bytes, static_cast<std::size_t>(n));
        continue;
      }
      if (buffer_.empty()) return Event::kEnd;
      line = std::move(buffer_);  // the last line of a file may lack its end
      buffer_.clear();
      return Event::kLine;
    }
  }

 private:
  Interrupts* interrupts_;
  std::string buffer_;
};

}  // namespace

std::unique_ptr<LineReader> plain_reader(Interrupts* interrupts) {
  return std::make_unique<PlainReader>(interrupts);
}

#ifndef LLMC_HAVE_LIBEDIT
std::unique_ptr<LineReader> line_editor(Interrupts& interrupts) {
  return plain_reader(&interrupts);
}
#endif

}  // namespace llmc::cli
