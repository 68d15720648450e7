#include "tools/llmc/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

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
      if (const std::size_t end = buffer_.find('\n', searched_); end != buffer_.npos) {
        line = buffer_.substr(begin_, end - begin_);
        searched_ = begin_ = end + 1;
        if (std::exchange(too_long_, false)) return Event::kTooLong;
        if (line.ends_with('\r')) line.pop_back();
        return Event::kLine;
      }
      buffer_.erase(0, begin_);
      begin_ = 0;
      searched_ = buffer_.size();
      if (buffer_.size() > kMostBytes) {
        too_long_ = true;
        forget();
      }
      if (interrupts_ != nullptr && interrupts_->take()) {
        too_long_ = false;
        forget();
        return Event::kInterrupt;
      }
      pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0},
                          {interrupts_ != nullptr ? interrupts_->fd() : -1, POLLIN, 0}};
      if (::poll(waiting, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return Event::kEnd;
      }
      if ((waiting[1].revents & POLLIN) != 0) continue;
      char bytes[std::size_t{1} << 16];
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n > 0) {
        buffer_.append(bytes, static_cast<std::size_t>(n));
        continue;
      }
      if (std::exchange(too_long_, false)) {
        forget();
        return Event::kTooLong;
      }
      if (buffer_.empty()) return Event::kEnd;
      line = std::move(buffer_);  // the last line of a file may lack its end
      forget();
      return Event::kLine;
    }
  }

 private:
  void forget() {
    buffer_.clear();
    begin_ = searched_ = 0;
  }

  Interrupts* interrupts_;
  std::string buffer_;
  std::size_t begin_ = 0;     // lines before it were given out
  std::size_t searched_ = 0;  // none ends between the two
  bool too_long_ = false;     // the line's beginning was thrown away
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
