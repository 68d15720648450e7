#include "runtime/hosted/tokenizer.h"

#include <algorithm>

#include "runtime/hosted/tokenizer/normalizers.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {

std::optional<std::int32_t> Tokenizer::bos() const {
  if (special_.prefix.empty()) return std::nullopt;
  return special_.prefix.front();
}

bool Tokenizer::is_stop(std::int32_t id) const {
  return std::find(special_.stop.begin(), special_.stop.end(), id) != special_.stop.end();
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<std::int32_t> ids;
  if (options.add_prefix) ids = special_.prefix;
  encode_text(text, options.parse_special, ids);
  if (options.add_suffix) ids.insert(ids.end(), special_.suffix.begin(), special_.suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  StreamDecoder decoder(*this, true);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.add(id);
  return text + decoder.finish();
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool at_start)
    : tokenizer_(tokenizer),
      drop_(at_start ? tokenizer.leading_spaces() : Tokenizer::LeadingSpaces::kKept) {}

std::string StreamDecoder::add(std::int32_t id) {
  using Leading = Tokenizer::LeadingSpaces;
  std::string_view bytes = tokenizer_.bytes_of(id);
  if (drop_ == Leading::kFirstTokenDropped && !bytes.empty()) {
    drop_ = Leading::kKept;
    std::string_view name = tokenizer_.name_of(id);
    for (std::size_t mark; (mark = name.find(kSpaceMark)) != std::string_view::npos;) {
      pending_ += name.substr(0, mark);
      name.remove_prefix(mark + kSpaceMark.size());
      bytes = name;
    }
  } else if (drop_ == Leading::kOneSpaceDropped && !bytes.empty()) {
    drop_ = Leading::kKept;
    if (bytes[0] == ' ') bytes.remove_prefix(1);
  } else if (drop_ != Leading::kKept && !bytes.empty()) {
    // Remove only a space that represents the mark; the text of an unknown token keeps its own
    // space.
    if (tokenizer_.name_of(id).starts_with(kSpaceMark)) bytes.remove_prefix(1);
    if (drop_ == Leading::kOneDropped || !bytes.empty()) drop_ = Leading::kKept;
  }
  pending_ += bytes;
  return take_whole_utf8(pending_, false);
}

std::string StreamDecoder::finish() {
  return take_whole_utf8(pending_, true);
}

}  // namespace llmc::hosted
