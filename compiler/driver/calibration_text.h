#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/compile_options.h"
#include "runtime/hosted/tokenizer.h"

/// The text of --calibrate as windows of token ids.
namespace llmc::driver {

/// Returns the text for the model of `options` as ids, at least the first `tokens`. `refused`: why
/// the model's tokenizer is not used. Warns if the builtin text does not use the chat template.
/// Fails with kBadInput if the text is not UTF-8. Without a tokenizer, fails with kBadInput if the
/// text is not a list of ids, or if its control tokens are to be parsed. Also fails like
/// builtin_text().
Result<std::vector<std::int32_t>> ids_of(const CalibrationText& given,
                                         const CompileOptions& options,
                                         const hosted::Tokenizer* tokenizer,
                                         const std::string& refused, std::uint32_t tokens);
/// Fails with kBadInput if there are fewer than 64 ids, or if one is not the model's. `tokens`: how
/// many are read.
Status check_ids(const CalibrationText& given, std::span<const std::int32_t> ids,
                 std::int64_t vocabulary, std::uint32_t tokens);

/// Returns the id with which a text begins: the one that the tokenizer adds; if it adds none
/// (MiniMind, Qwen) and the model of `options` writes the text, read_bos_id(); -1: none. Fails like
/// read_bos_id().
Result<std::int32_t> bos_of(const CalibrationText& given, const hosted::Tokenizer* tokenizer,
                            const CompileOptions& options, std::int64_t vocabulary);
/// Cuts at most `tokens` ids into windows of `size` tokens, each of which begins with one `bos` if
/// that is not negative and `size` is larger than 1.
std::vector<std::vector<std::int32_t>> windows_of(const std::vector<std::int32_t>& ids,
                                                  std::int32_t bos, std::uint32_t size,
                                                  std::uint32_t tokens);

/// Returns a hash of what is read, or of what determines the text that the model writes.
std::uint64_t hash_of_ids(std::span<const std::int32_t> ids, std::int32_t bos,
                          std::uint32_t tokens);
/// Returns a key of the text and of how it becomes ids: "self", "builtin-HASH", or "text-HASH",
/// with "-special" if control tokens are parsed.
std::string text_key(const CalibrationText& given);

}  // namespace llmc::driver
