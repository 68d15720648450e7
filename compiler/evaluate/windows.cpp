#include "compiler/evaluate/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/check.h"
#include "compiler/support/counted.h"

namespace llmc::evaluate {
namespace {

Diagnostic too_short(std::size_t tokens, std::uint32_t width, const char* hint) {
  return failure(
      ErrorKind::kBadInput,
      fmt::format("the text has {}, but a window needs {}", counted(tokens, "token"), width), hint);
}

}  // namespace

std::uint64_t window_width(const WindowOptions& options, std::uint32_t context) {
  const std::uint32_t added = options.stride / 2;
  const std::uint32_t room = context > added ? context - added : context;
  const std::uint32_t size = options.size > 0 ? options.size : std::min(kDefaultWindow, room);
  return std::uint64_t{size} + added;
}

Result<Windows> Windows::cut(std::vector<std::int32_t> text, const WindowOptions& options,
                             std::uint32_t context) {
  const std::uint64_t width = window_width(options, context);
  if (width > context) {
    return usage_error(
        fmt::format("a window of {} tokens{} does not fit the context of {}", width,
                    options.stride > 0 ? fmt::format(", {} of them for --ppl-stride {},",
                                                     options.stride / 2, options.stride)
                                       : "",
                    context),
        fmt::format("use a smaller {}, or compile with a larger --ctx",
                    options.stride > 0 ? "--ppl-stride or --window" : "--window"));
  }
  Windows windows;
  windows.width_ = windows.step_ = static_cast<std::uint32_t>(width);
  windows.bos_ = options.bos;
  const bool has_bos = options.bos >= 0;
  if (options.stride == 0 && options.scored == ScoredTokens::kAll) {
    if (width < 2)
      return usage_error("a window of 1 token has no token to predict", "use 2 or more");
    windows.bos_in_front_ = has_bos;
    windows.step_ -= has_bos ? 1 : 0;
    // Without `bos`, a single token at the end of the text has no context to predict it from.
    const std::size_t alone = has_bos ? 0 : 1;
    if (text.size() <= alone) return too_short(text.size(), has_bos ? 1 : 2, "");
    windows.count_ = (text.size() - alone + windows.step_ - 1) / windows.step_;
  } else {
    if (has_bos) text.insert(text.begin(), options.bos);
    const char* hint = "use a smaller --window";
    if (options.stride > 0) {
      if (options.stride >= width) {
        return usage_error(
            fmt::format("--ppl-stride {} leaves no tokens before the counted ones in a window of "
                        "{}",
                        options.stride, width),
            "use a smaller --ppl-stride or a larger --window");
      }
      hint = "use a smaller --ppl-stride or --window";
      windows.step_ = options.stride;
      windows.first_ = windows.width_ - options.stride;
    } else {
      if (width < 3) {
        return usage_error(fmt::format("a window of {} tokens has an empty second half", width),
                           "use 3 or more, or --count all");
      }
      windows.first_ = windows.width_ / 2 + 1;
      hint = "use a smaller --window, or --count all, which accepts a partial window";
    }
    if (text.size() < width) return too_short(text.size(), windows.width_, hint);
    windows.count_ = (text.size() - windows.width_) / windows.step_ + 1;
  }
  if (options.max_windows > 0)
    windows.count_ = std::min<std::size_t>(windows.count_, options.max_windows);
  windows.text_ = std::move(text);
  return windows;
}

Windows::Window Windows::at(std::size_t index) const {
  LLMC_CHECK(index < count_);
  const std::size_t begin = index * step_;
  const std::size_t taken = width_ - (bos_in_front_ ? 1 : 0);
  const std::size_t end = std::min(begin + taken, text_.size());
  Window window{.tokens = {}, .first = first_};
  window.tokens.reserve(width_);
  if (bos_in_front_) window.tokens.push_back(bos_);
  for (std::size_t i = begin; i < end; ++i) window.tokens.push_back(text_[i]);
  if (bos_ >= 0) window.tokens.front() = bos_;
  return window;
}

}  // namespace llmc::evaluate
