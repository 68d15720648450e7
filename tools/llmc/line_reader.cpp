#include "tools/llmc/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

namespace llmc::cli {
namespace {

class PlainReader final : public LineReader {
 public:
  explicit PlainReader(Interrupts* interrupts) : interrupts_(interrupts) {}

  Event read(const std::string& prompt, std::string& line) override {
    std::optional<BracketedPaste> paste;
    if (interrupts_ != nullptr) {
      paste.emplace();
      std::fputs(prompt.c_str(), stdout);
      std::fflush(stdout);
    }
    for (;;) {
      if (const auto end = find_end()) {
        line = buffer_.substr(begin_, *end - begin_);
        searched_ = begin_ = *end + 1;
        if (std::exchange(too_long_, false)) return Event::kTooLong;
        if (line.ends_with('\r')) line.pop_back();
        if (interrupts_ != nullptr) remove_marks(line);
        return Event::kLine;
      }
      buffer_.erase(0, begin_);
      searched_ -= begin_;
      begin_ = 0;
      if (buffer_.size() > kMaxBytes) {
        too_long_ = true;
        forget();
      }
      if (interrupts_ != nullptr && interrupts_->take()) {
        const bool begun = !buffer_.empty() || too_long_;
        too_long_ = false;
        forget();
        return begun ? Event::kDiscarded : Event::kInterrupt;
      }
      pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0},
                          {interrupts_ != nullptr ? interrupts_->fd() : -1, POLLIN, 0}};
      if (::poll(waiting, 2, -1) < 0) {
        if (errno != EINTR) return Event::kEnd;
        if (paste) paste->renew();  // the process may have been stopped and continued
        continue;
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
      line = std::move(buffer_);  // the last line of a file may have no line break
      forget();
      return Event::kLine;
    }
  }

 private:
  /// Returns the end of the line at begin_: the first line break outside pasted text; nullopt if it
  /// is not in the buffer yet. Examines each byte once.
  std::optional<std::size_t> find_end() {
    for (;;) {
      if (pasting_) {
        const std::size_t end = buffer_.find(BracketedPaste::kEnd, searched_);
        if (end == buffer_.npos) return keep_for_mark(), std::nullopt;
        searched_ = end + BracketedPaste::kEnd.size();
        pasting_ = false;
      }
      const std::size_t end = buffer_.find('\n', searched_);
      // Only terminals mark pasted text.
      const std::size_t paste =
          interrupts_ == nullptr
              ? buffer_.npos
              : std::string_view(buffer_).substr(0, end).find(BracketedPaste::kBegin, searched_);
      if (paste != buffer_.npos) {
        pasting_ = true;
        searched_ = paste + BracketedPaste::kBegin.size();
        continue;
      }
      if (end == buffer_.npos) return keep_for_mark(), std::nullopt;
      return end;
    }
  }

  /// Ends a search, excluding bytes that may be the start of a mark.
  void keep_for_mark() {
    const std::size_t mark = BracketedPaste::kEnd.size() - 1;
    searched_ = std::max(searched_, buffer_.size() - std::min(buffer_.size(), mark));
  }

  static void remove_marks(std::string& line) {
    for (const std::string_view mark : {BracketedPaste::kBegin, BracketedPaste::kEnd}) {
      std::string rest;
      std::size_t from = 0;
      for (std::size_t at; (at = line.find(mark, from)) != line.npos; from = at + mark.size())
        rest.append(line, from, at - from);
      if (from > 0) line = rest.append(line, from);
    }
  }

  void forget() {
    buffer_.clear();
    begin_ = searched_ = 0;
    pasting_ = false;
  }

  Interrupts* interrupts_;
  std::string buffer_;
  std::size_t begin_ = 0;     // start of the first line that was not returned
  std::size_t searched_ = 0;  // no line ends between begin_ and here
  bool pasting_ = false;      // searched_ is within marked text
  bool too_long_ = false;     // the start of the line was discarded
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
