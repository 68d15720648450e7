#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/chat/stop_texts.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted {

/// What runs tokens: a session of llmc.h, in this process or another.
class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual llmc_status append(std::span<const std::int32_t> tokens) = 0;
  virtual llmc_status sample(std::int32_t& token) = 0;
  virtual llmc_status rewind(std::size_t position) = 0;
  /// Back to what it began with.
  virtual llmc_status reset() { return rewind(0); }
  /// What is sampled and appended from here on is a text of its own, for what holds texts to a form
  /// (a grammar).
  virtual llmc_status begin_text() { return LLMC_OK; }
  /// Whether nothing can follow in that text.
  virtual llmc_status text_is_complete(bool& complete) {
    complete = false;
    return LLMC_OK;
  }
  /// Its tokens and cache as bytes, and back; a state that is refused changes nothing.
  virtual llmc_status save_state(std::string&) { return LLMC_ERROR_STATE; }
  virtual llmc_status load_state(std::string_view) { return LLMC_ERROR_STATE; }
  virtual std::size_t position() const = 0;
  virtual std::size_t context() const = 0;
  virtual std::size_t chunk() const = 0;
  virtual std::size_t vocabulary() const = 0;
};

enum class Stopped : std::uint8_t {
  kStopToken,  // the model ended its answer
  kStopText,   // one of the texts that end it came
  kLength,     // as many tokens as were allowed
  kContext,    // no room for another token
  kCancelled,  // the cancel flag was set
  kCaller,     // the callback said so
  kComplete,   // Sequence::text_is_complete
};

struct GenerateOptions {
  std::size_t max_tokens = SIZE_MAX;
  std::function<bool(std::int32_t)> is_stop;      // tokens that end the text and are no part of it
  std::vector<std::string> stop_texts;            // neither are these
  const std::atomic<bool>* cancel = nullptr;      // looked at before each token
  std::function<bool(std::string_view)> on_text;  // whole UTF-8 as it comes; false: stop
  bool at_start = false;  // the first token begins a text: see StreamDecoder
  /// Makes room in a full context; `ran`: the tokens of this text that the sequence holds, and has
  /// to hold again behind whatever is in front of them then. `made` stays false where there is none
  /// to be made. May be empty.
  std::function<llmc_status(std::span<const std::int32_t> ran, bool& made)> make_room;
};

struct Generated {
  Stopped why = Stopped::kLength;
  std::string text;               // without what ended it
  std::vector<std::int32_t> ids;  // that made the text; the first `run` of them are in the cache
  std::size_t run = 0;
  std::int32_t stop_token = -1;  // with kStopToken
  bool exact = true;  // `text` is what the ids stand for: no stop text and no part of a character
                      // was cut off
};

/// Samples and appends until something ends it; `result` holds what there is on errors, too.
llmc_status generate(Sequence& sequence, const Tokenizer& tokenizer, const GenerateOptions& options,
                     Generated& result);

}  // namespace llmc::hosted
