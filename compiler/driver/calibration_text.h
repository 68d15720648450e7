#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/compile_options.h"
#include "runtime/hosted/tokenizer.h"

/// Converts the text of --calibrate, --fit or --max-kl to windows of token ids.
namespace llmc::driver {

/// Returns the text for the model of `options` as token ids: the whole text or, with a tokenizer,
/// at most its first 64 * `tokens` bytes (the builtin text: all of it). `refused`: why the model's
/// tokenizer was rejected, or empty. Warns if the builtin text does not use the chat template.
/// Fails with kBadInput if the text is not UTF-8. Without a tokenizer, fails with kBadInput if the
/// text is not a list of ids, is the builtin one, or has CalibrationText::parse_special. Also fails
/// like builtin_text().
Result<std::vector<std::int32_t>> ids_of(const CalibrationText& given,
                                         const CompileOptions& options,
                                         const hosted::Tokenizer* tokenizer,
                                         const std::string& refused, std::uint32_t tokens);
/// Fails with kBadInput if there are fewer than 64 ids, or if one is outside the vocabulary.
/// `tokens`: maximum number of ids that are used, for the message.
Status check_ids(const CalibrationText& given, std::span<const std::int32_t> ids,
                 std::int64_t vocabulary, std::uint32_t tokens);

/// Returns the BOS token id with which windows of the text begin, or -1: the id that the tokenizer
/// adds. If it adds none (MiniMind, Qwen) and the model of `options` generates the text, returns
/// read_bos_id(). Fails like read_bos_id().
Result<std::int32_t> bos_of(const CalibrationText& given, const hosted::Tokenizer* tokenizer,
                            const CompileOptions& options, std::int64_t vocabulary);
/// Cuts at most `tokens` ids into windows of `size` tokens; the last may be shorter. If `bos` is
/// not negative and `size` is larger than 1, each window begins with one `bos`.
std::vector<std::vector<std::int32_t>> windows_of(const std::vector<std::int32_t>& ids,
                                                  std::int32_t bos, std::uint32_t size,
                                                  std::uint32_t tokens);

/// Returns a hash of the arguments, for cache keys. If the model generates the text, `ids` is
/// empty, because the model and the other arguments determine the text.
std::uint64_t hash_of_ids(std::span<const std::int32_t> ids, std::int32_t bos,
                          std::uint32_t tokens);
/// Returns a string that identifies the text and its conversion to ids, for cache keys: "self",
/// "builtin-HASH" or "text-HASH", the latter with "-special" if control tokens are parsed.
std::string text_key(const CalibrationText& given);

}  // namespace llmc::driver
