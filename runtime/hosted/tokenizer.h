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

/// Converts text to token ids and back. Every tokenizer is a set of tables (tokenizer/tables.h).
/// They are built from MNN's tokenizer.txt, sentencepiece's .model, Hugging Face's tokenizer.json
/// or tiktoken's lists, or mapped from a NAME.tokenizer.bin, which contains tables built earlier
/// (docs/tokenizers.md).
namespace llmc::hosted {

struct EncodeOptions {
  bool add_prefix = true;  // add the ids that begin a prompt, usually the beginning-of-sequence id
  /// Convert "<|im_end|>" in the text to that token, not to ten characters.
  bool parse_special = false;
  /// Add the ids that the file's template puts after a text, such as T5's </s>.
  bool add_suffix = false;
};

/// Ids with special meanings.
struct SpecialIds {
  std::vector<std::int32_t> special;  // control tokens, recognized in text with parse_special
  std::vector<std::int32_t> stop;     // ids that end generation
  std::vector<std::int32_t> prefix;   // ids that begin a prompt
  std::vector<std::int32_t> suffix;   // ids that end the input of an encoder
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Loads a tokenizer file and its sibling files. Detects the format by the content. Fails with
  /// LLMC_ERROR_FILE or LLMC_ERROR_FORMAT.
  static Outcome<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& path);
  /// Returns the other files that load() reads, and on which the tokenizer depends.
  static std::vector<std::filesystem::path> sibling_files(const std::filesystem::path& path);
  /// Creates a tokenizer from the content of a tokenizer file. Reads no other file. `name` is used
  /// in messages. For a tiktoken list, which does not name its encoding, `name` may also select the
  /// encoding.
  static Outcome<std::unique_ptr<Tokenizer>> parse(std::string_view content,
                                                   const std::string& name);

  /// Creates a tokenizer from tables in memory, which must outlive it: the content of a
  /// NAME.tokenizer.bin, aligned to 8 bytes. Does not need the file readers.
  static Outcome<std::unique_ptr<Tokenizer>> from_tables(std::span<const std::byte> tables,
                                                         const std::string& name);
  /// Returns the tables, which are the content of a NAME.tokenizer.bin.
  virtual std::span<const std::byte> tables() const = 0;

  /// Returns the ids of `text`. Unless the vocabulary is byte-level, bytes that are not UTF-8 count
  /// as U+FFFD.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Returns the text of `ids` as valid UTF-8. Ids outside the vocabulary and control tokens have
  /// no text. Removes leading spaces as leading_spaces() specifies.
  std::string decode(std::span<const std::int32_t> ids) const;

  virtual std::size_t size() const = 0;  // ids are 0 .. size() - 1
  const SpecialIds& special_ids() const { return special_; }
  std::span<const std::int32_t> stop_ids() const { return special_.stop; }
  /// Returns the first of the ids that begin a prompt; nullopt if there are none.
  std::optional<std::int32_t> bos() const;
  bool is_stop(std::int32_t id) const;

  /// Returns the bytes that a token adds to the text, which may be a part of a character. Empty for
  /// control tokens and ids outside the vocabulary.
  virtual std::string_view bytes_of(std::int32_t id) const = 0;
  /// Returns the spelling of a token in the vocabulary, for messages; control tokens also have one.
  virtual std::string_view name_of(std::int32_t id) const = 0;
  /// The leading spaces that decode() removes.
  enum class LeadingSpaces : std::uint8_t {
    kKept,
    kOneDropped,        // in the first token with text: the space of a U+2581 that begins its name
    kAllDropped,        // the same in each token, up to the first one that has other text
    kOneSpaceDropped,   // one space of any origin at the start of the first token with text
    kFirstTokenDropped  // all spaces that represent a U+2581 in the first token with text
  };
  virtual LeadingSpaces leading_spaces() const = 0;

 protected:
  /// Appends the ids of a text. With `parse_special`, names of control tokens in the text are
  /// converted to these tokens.
  virtual void encode_text(std::string_view text, bool parse_special,
                           std::vector<std::int32_t>& ids) const = 0;

  SpecialIds special_;
};

/// Decodes a stream of tokens. Returns text as soon as its characters are complete.
class StreamDecoder {
 public:
  /// `at_start`: the first token begins the text, so that leading spaces are removed as
  /// Tokenizer::leading_spaces() specifies.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool at_start = false);
  /// Adds a token and returns the text that it completes; may be empty.
  std::string add(std::int32_t id);
  /// Returns the incomplete rest, with U+FFFD for each byte.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  Tokenizer::LeadingSpaces drop_;  // leading spaces still to be removed
  std::string pending_;
};

}  // namespace llmc::hosted
