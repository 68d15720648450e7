#include "runtime/hosted/chat/stop_texts.h"

#include <algorithm>
#include <utility>

namespace llmc::hosted {

StopTexts::Matcher::Matcher(std::string stop) : text(std::move(stop)), borders(text.size(), 0) {
  for (std::size_t i = 1, border = 0; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border]) border = borders[border - 1];
    if (text[i] == text[border]) ++border;
    borders[i] = border;
  }
}

bool StopTexts::Matcher::add(char byte) {
  while (matched > 0 && text[matched] != byte) matched = borders[matched - 1];
  if (text[matched] == byte) ++matched;
  return matched == text.size();
}

StopTexts::StopTexts(const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    if (!text.empty()) matchers_.emplace_back(text);
}

std::string StopTexts::add(std::string_view piece) {
  if (found_) return {};
  for (const char byte : piece) {
    held_ += byte;
    std::size_t longest = 0;
    for (Matcher& matcher : matchers_)
      if (matcher.add(byte)) longest = std::max(longest, matcher.text.size());
    if (longest == 0) continue;
    found_ = true;
    std::string free = held_.substr(begin_, held_.size() - begin_ - longest);
    held_.clear();
    begin_ = 0;
    return free;
  }
  std::size_t withheld = 0;
  for (const Matcher& matcher : matchers_) withheld = std::max(withheld, matcher.matched);
  std::string free = held_.substr(begin_, held_.size() - begin_ - withheld);
  begin_ += free.size();
  if (begin_ > held_.size() / 2) {  // do this rarely, because a stop text may be long
    held_.erase(0, begin_);
    begin_ = 0;
  }
  return free;
}

std::string StopTexts::finish() {
  for (Matcher& matcher : matchers_) matcher.matched = 0;
  std::string rest = held_.substr(begin_);
  held_.clear();
  begin_ = 0;
  return rest;
}

}  // namespace llmc::hosted
