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

/// A sequence of tokens that can be extended: a session of llmc.h, in this process or another.
class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual llmc_status append(std::span<const std::int32_t> tokens) = 0;
  virtual llmc_status sample(std::int32_t& token) = 0;
  virtual llmc_status rewind(std::size_t position) = 0;
  /// Returns to the tokens with which the sequence began.
  virtual llmc_status reset() { return rewind(0); }
  /// Starts a new text at the current position, if texts are constrained by a grammar.
  virtual llmc_status begin_text() { return LLMC_OK; }
  /// Sets `complete` to whether no token can continue the text.
  virtual llmc_status text_is_complete(bool& complete) {
    complete = false;
    return LLMC_OK;
  }
  /// Save and load the tokens and the cache as bytes. If a state is rejected, nothing changes.
  virtual llmc_status save_state(std::string&) { return LLMC_ERROR_STATE; }
  virtual llmc_status load_state(std::string_view) { return LLMC_ERROR_STATE; }
  virtual std::size_t position() const = 0;
  virtual std::size_t context() const = 0;
  virtual std::size_t chunk() const = 0;
  virtual std::size_t vocabulary() const = 0;
};

enum class Stopped : std::uint8_t {
  kStopToken,  // the model ended its answer
  kStopText,   // one of the stop texts was found
  kLength,     // the maximum number of tokens was reached
  kContext,    // the context is full
  kCancelled,  // the cancel flag was set
  kCaller,     // the callback returned false
  kComplete,   // no token can continue the text (Sequence::text_is_complete)
};

struct GenerateOptions {
  std::size_t max_tokens = SIZE_MAX;
  /// Returns whether a token ends the text. That token is not part of the text.
  std::function<bool(std::int32_t)> is_stop;
  std::vector<std::string> stop_texts;        // texts that end the text and are not part of it
  const std::atomic<bool>* cancel = nullptr;  // checked before each token
  /// Receives whole UTF-8 characters; returns false to stop.
  std::function<bool(std::string_view)> on_text;
  bool at_start = false;  // the first token begins a text: see StreamDecoder
  /// Makes room in a full context by dropping tokens. `ran`: the tokens of this text that are in
  /// the sequence; the function runs them again after the remaining tokens. Sets `made` to true
  /// unless no room can be made. An empty function makes no room.
  std::function<llmc_status(std::span<const std::int32_t> ran, bool& made)> make_room;
};

struct Generated {
  Stopped why = Stopped::kLength;
  std::string text;               // without the token or the text that ended it
  std::vector<std::int32_t> ids;  // ids of the text; the first `run` of them are in the cache
  std::size_t run = 0;
  std::int32_t stop_token = -1;  // the token that ended the text; only with kStopToken
  /// Whether `text` is exactly the text of `ids`: no stop text was removed, and no incomplete
  /// character was replaced.
  bool exact = true;
};

/// Samples and appends tokens until the text ends. On an error, `result` contains the text
/// generated so far.
llmc_status generate(Sequence& sequence, const Tokenizer& tokenizer, const GenerateOptions& options,
                     Generated& result);

}  // namespace llmc::hosted
