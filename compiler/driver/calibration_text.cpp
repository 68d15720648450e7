#include "compiler/driver/calibration_text.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "compiler/driver/builtin_text.h"
#include "compiler/driver/chat_files.h"
#include "compiler/support/counted.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::driver {
namespace {

/// Minimum number of tokens. The inputs of a matrix for fewer tokens are not representative.
constexpr std::size_t kMinTextTokens = 64;

Diagnostic bad_text(const CalibrationText& given, std::string message, std::string hint) {
  return file_failure(ErrorKind::kBadInput, given.source, std::move(message), std::move(hint));
}

/// Parses token ids between blanks and commas; nullopt for other text.
std::optional<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  constexpr std::string_view kBetween = ", \t\r\n";
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(kBetween, at);
    if (at == text.npos) return ids;
    std::int32_t id = -1;
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data() + at, end, id);
    if (error != std::errc{} || id < 0) return std::nullopt;
    ids.push_back(id);
    at = static_cast<std::size_t>(next - text.data());
    if (next != end && kBetween.find(*next) == kBetween.npos) return std::nullopt;
  }
}

/// Returns the beginning of a text, of at most 64 bytes per token for `tokens` tokens. It ends with
/// a whole character.
std::string_view part_of(std::string_view text, std::uint32_t tokens) {
  constexpr std::size_t kMostBytesPerToken = 64;
  std::size_t end = std::min(text.size(), tokens * kMostBytesPerToken);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end);
}

}  // namespace

Result<std::vector<std::int32_t>> ids_of(const CalibrationText& given,
                                         const CompileOptions& options,
                                         const hosted::Tokenizer* tokenizer,
                                         const std::string& refused, std::uint32_t tokens) {
  if (tokenizer && given.builtin) {
    LLMC_TRY(BuiltinText builtin, builtin_text(options.model, *tokenizer));
    if (!builtin.refused.empty() && options.import.on_warning)
      options.import.on_warning(
          {.file = options.model.string(),
           .message = "calibration: conversations are read as plain text: " +
                      printable(builtin.refused, 1000),
           .hint = "give a text in the model's chat format with --calibrate FILE --parse-special"});
    return std::move(builtin.ids);
  }
  if (tokenizer) {
    const std::string_view part = part_of(given.text, tokens);
    if (!hosted::is_utf8(part))
      return bad_text(given, "the calibration's text is not valid UTF-8", "give a text file");
    return tokenizer->encode(part, {.add_prefix = false, .parse_special = given.parse_special});
  }
  if (!given.parse_special && !given.builtin)
    if (auto ids = parse_ids(given.text)) return *std::move(ids);
  return bad_text(given,
                  refused.empty() ? "the model has no tokenizer for the calibration's text"
                                  : fmt::format("the model's tokenizer was refused: {}", refused),
                  given.builtin
                      ? "give a list of token ids with --calibrate FILE, or --calibrate self"
                  : given.parse_special
                      ? "remove --parse-special, and give a list of token ids"
                      : "without a tokenizer, the file must be a list of token ids; --calibrate "
                        "self needs no text");
}

Status check_ids(const CalibrationText& given, std::span<const std::int32_t> ids,
                 std::int64_t vocabulary, std::uint32_t tokens) {
  if (ids.size() < kMinTextTokens)
    return bad_text(
        given,
        fmt::format("the calibration's text has {}, fewer than {}", counted(ids.size(), "token"),
                    kMinTextTokens),
        fmt::format("give a text of some pages, of which up to {} tokens are read", tokens));
  for (const std::int32_t id : ids)
    if (id >= vocabulary)
      return bad_text(given,
                      fmt::format("token id {} is not below the vocabulary of {}", id, vocabulary),
                      "check that text and tokenizer belong to the model");
  return ok_status();
}

std::uint64_t hash_of_ids(std::span<const std::int32_t> ids, std::int32_t bos,
                          std::uint32_t tokens) {
  const std::uint64_t seed = static_cast<std::uint64_t>(static_cast<std::uint32_t>(bos)) << 32;
  return XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), seed | tokens);
}

std::vector<std::vector<std::int32_t>> windows_of(const std::vector<std::int32_t>& ids,
                                                  std::int32_t bos, std::uint32_t size,
                                                  std::uint32_t tokens) {
  std::vector<std::vector<std::int32_t>> windows;
  if (size < 2) bos = -1;  // a window has room for one token only
  const std::size_t count = std::min<std::size_t>(ids.size(), tokens);
  for (std::size_t at = 0; at < count;) {
    std::vector<std::int32_t>& window = windows.emplace_back();
    if (bos >= 0 && ids[at] != bos) window.push_back(bos);
    while (at < count && window.size() < size) window.push_back(ids[at++]);
  }
  return windows;
}

Result<std::int32_t> bos_of(const CalibrationText& given, const hosted::Tokenizer* tokenizer,
                            const CompileOptions& options, std::int64_t vocabulary) {
  const std::int32_t added = tokenizer ? tokenizer->bos().value_or(-1) : -1;
  if (added >= 0 || !given.write) return added;
  return read_bos_id(options.model, vocabulary);
}

std::string text_key(const CalibrationText& given) {
  if (given.write) return given.source;
  if (given.builtin) return fmt::format("builtin-{:016x}", builtin_text_hash());
  return fmt::format("text-{:016x}{}", XXH3_64bits(given.text.data(), given.text.size()),
                     given.parse_special ? "-special" : "");
}

}  // namespace llmc::driver
