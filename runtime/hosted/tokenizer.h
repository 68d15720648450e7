#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/outcome.h"

/// Text to token ids and back. Every tokenizer is a set of tables (tokenizer/tables.h): made from
/// MNN's tokenizer.txt, sentencepiece's .model, Hugging Face's tokenizer.json and tiktoken's lists,
/// or mapped from a NAME.tokenizer.bin that was made of one (docs/tokenizers.md).
namespace llmc::hosted {

struct EncodeOptions {
  bool add_prefix = true;  // the ids a prompt starts with, as a rule the beginning-of-sequence id
  bool parse_special = false;  // "<|im_end|>" in the text is that token, not these ten characters
  bool add_suffix = false;     // the ids that the file's template puts behind a text, as T5's </s>
};

/// Ids that are not text.
struct SpecialIds {
  std::vector<std::int32_t> special;  // control tokens, found in text with parse_special
  std::vector<std::int32_t> stop;     // end generation
  std::vector<std::int32_t> prefix;   // start a prompt
  std::vector<std::int32_t> suffix;   // end what an encoder reads
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Reads a tokenizer file, its kind told by its content, and what stands beside it.
  /// LLMC_ERROR_FILE or LLMC_ERROR_FORMAT.
  static Outcome<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& path);
  /// The files that load() looks for, besides the one it is given; the tokenizer depends on them.
  static std::vector<std::filesystem::path> files_beside(const std::filesystem::path& path);
  /// The same from a file's content; `name` stands for it in messages, and may tell what the
  /// content does not (the encoding of a tiktoken list). No other file is read.
  static Outcome<std::unique_ptr<Tokenizer>> parse(std::string_view content,
                                                   const std::string& name);

  /// A tokenizer that reads tables which lie elsewhere and must outlive it: the content of a
  /// NAME.tokenizer.bin, at a multiple of 8 bytes. Needs none of the file readers.
  static Outcome<std::unique_ptr<Tokenizer>> from_tables(std::span<const std::byte> tables,
                                                         const std::string& name);
  /// The tables it reads: what a NAME.tokenizer.bin holds.
  virtual std::span<const std::byte> tables() const = 0;

  /// Ids of `text`; bytes that are no UTF-8 count as U+FFFD where the vocabulary has no bytes.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Text of `ids`, whole UTF-8; ids outside the vocabulary and control tokens are nothing. The
  /// space at the start that encode() puts there for sentencepiece is left out.
  std::string decode(std::span<const std::int32_t> ids) const;

  virtual std::size_t size() const = 0;  // ids are 0 .. size() - 1
  const SpecialIds& special_ids() const { return special_; }
  std::span<const std::int32_t> stop_ids() const { return special_.stop; }
  /// The first of the ids a prompt starts with.
  std::optional<std::int32_t> bos() const;
  bool is_stop(std::int32_t id) const;

  /// What a token adds to the text: bytes, perhaps a part of a character; empty for control tokens.
  virtual std::string_view bytes_of(std::int32_t id) const = 0;
  /// How the vocabulary spells a token, for display: control tokens too.
  virtual std::string_view name_of(std::int32_t id) const = 0;
  /// Which spaces at a text's start decode() leaves out.
  enum class LeadingSpaces : std::uint8_t {
    kKept,
    kOneDropped,        // one that a U+2581 in the token's name stands for
    kAllDropped,        // all such
    kOneSpaceDropped,   // one space, whatever it comes from
    kFirstTokenDropped  // all that stand for a U+2581 in the first token
  };
  virtual LeadingSpaces leading_spaces() const = 0;

 protected:
  /// Appends the ids of a text; names of control tokens in it are these if `parse_special`.
  virtual void encode_text(std::string_view text, bool parse_special,
                           std::vector<std::int32_t>& ids) const = 0;

  SpecialIds special_;
};

/// Decodes a stream of tokens: gives out text as soon as, and only when, it is whole UTF-8.
class StreamDecoder {
 public:
  /// `at_start`: the first token begins the text, so a space encode() added is left out.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool at_start = false);
  /// Text this token completes; may be empty.
  std::string add(std::int32_t id);
  /// What was left incomplete, as U+FFFD for each byte.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  Tokenizer::LeadingSpaces drop_;  // what is still to be left out
  std::string pending_;
};

}  // namespace llmc::hosted
