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

/// Converts text to token ids and back. Every tokenizer is a set of tables (tokenizer/tables.h),
/// built from MNN's tokenizer.txt, sentencepiece's .model, Hugging Face's tokenizer.json or
/// tiktoken's lists, or mapped from a NAME.tokenizer.bin made of one of these (docs/tokenizers.md).
namespace llmc::hosted {

struct EncodeOptions {
  bool add_prefix = true;  // add the prefix ids of a prompt, usually the beginning-of-sequence id
  bool parse_special = false;  // "<|im_end|>" in the text is that token, not ten characters
  bool add_suffix =
      false;  // add the ids that the file's template puts after a text, such as T5's </s>
};

/// Ids with special meanings.
struct SpecialIds {
  std::vector<std::int32_t> special;  // control tokens, recognized in text with parse_special
  std::vector<std::int32_t> stop;     // end generation
  std::vector<std::int32_t> prefix;   // begin a prompt
  std::vector<std::int32_t> suffix;   // end the input of an encoder
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Loads a tokenizer file, whose format is detected from its content, and its sibling files.
  /// LLMC_ERROR_FILE or LLMC_ERROR_FORMAT.
  static Outcome<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& path);
  /// Returns the other files that load() reads; the tokenizer depends on them.
  static std::vector<std::filesystem::path> sibling_files(const std::filesystem::path& path);
  /// Same for a file's content. `name` identifies it in messages, and may supply what the content
  /// lacks (the encoding of a tiktoken list). No other file is read.
  static Outcome<std::unique_ptr<Tokenizer>> parse(std::string_view content,
                                                   const std::string& name);

  /// Creates a tokenizer on tables in memory that must outlive it: the content of a
  /// NAME.tokenizer.bin, aligned to 8 bytes. Needs none of the file readers.
  static Outcome<std::unique_ptr<Tokenizer>> from_tables(std::span<const std::byte> tables,
                                                         const std::string& name);
  /// Returns the tables, which are the content of a NAME.tokenizer.bin.
  virtual std::span<const std::byte> tables() const = 0;

  /// Returns the ids of `text`. Bytes that are not UTF-8 count as U+FFFD if the vocabulary has no
  /// bytes.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Returns the text of `ids` as valid UTF-8. Ids outside the vocabulary and control tokens add
  /// nothing. The leading space that encode() adds for sentencepiece is dropped.
  std::string decode(std::span<const std::int32_t> ids) const;

  virtual std::size_t size() const = 0;  // ids are 0 .. size() - 1
  const SpecialIds& special_ids() const { return special_; }
  std::span<const std::int32_t> stop_ids() const { return special_.stop; }
  /// Returns the first of the ids that begin a prompt.
  std::optional<std::int32_t> bos() const;
  bool is_stop(std::int32_t id) const;

  /// Returns the bytes that a token adds to the text, possibly part of a character; empty for
  /// control tokens.
  virtual std::string_view bytes_of(std::int32_t id) const = 0;
  /// Returns the spelling of a token in the vocabulary, for display; also for control tokens.
  virtual std::string_view name_of(std::int32_t id) const = 0;
  /// Which leading spaces decode() drops.
  enum class LeadingSpaces : std::uint8_t {
    kKept,
    kOneDropped,        // one that represents a U+2581 in the token's name
    kAllDropped,        // all such
    kOneSpaceDropped,   // one space of any origin
    kFirstTokenDropped  // all that represent a U+2581 in the first token
  };
  virtual LeadingSpaces leading_spaces() const = 0;

 protected:
  /// Appends the ids of a text; with `parse_special`, names of control tokens in it are these
  /// tokens.
  virtual void encode_text(std::string_view text, bool parse_special,
                           std::vector<std::int32_t>& ids) const = 0;

  SpecialIds special_;
};

/// Decodes a stream of tokens and returns text as soon as its characters are complete.
class StreamDecoder {
 public:
  /// `at_start`: the first token begins the text, so the space that encode() adds is dropped.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool at_start = false);
  /// Returns the text that this token completes; may be empty.
  std::string add(std::int32_t id);
  /// Returns what is incomplete, with U+FFFD for each byte.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  Tokenizer::LeadingSpaces drop_;  // what is still to be dropped
  std::string pending_;
};

}  // namespace llmc::hosted
