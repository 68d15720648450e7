#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"
#include "llmc/llmc.h"
#include "runtime/hosted/dry_breakers.h"
#include "runtime/hosted/model_library.h"
#include "runtime/runner/protocol.h"

namespace llmc::exec {

using Api = hosted::LibraryApi;
/// The numbers of llmc_model that its users need.
using ModelFacts = runner::ModelFacts;

struct SessionOptions {
  std::uint32_t threads = 1;
  std::uint32_t chunk = 0;  // tokens of a prompt run at once; 0: the model's
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::uint32_t begin = LLMC_BEGIN_PROMPT;
  std::uint32_t full_context = LLMC_FULL_STATUS;  // LLMC_FULL_…
  std::uint32_t keep_first = 0;                   // with LLMC_FULL_SLIDE, tokens that stay for good
};

/// A session and the functions that take it: those of a loaded library, or functions that forward
/// to a runner process.
struct SessionHandle {
  std::shared_ptr<void> owner;
  const Api* api = nullptr;  // without state_… and new_sequence in a runner
  llmc_session* session = nullptr;
  const std::string* message = nullptr;           // what was logged, or empty
  const std::optional<Error>* failure = nullptr;  // why the runner has ended; nullptr: none runs
  std::span<const std::byte> grammar;  // tables of the compiled-in one, unless in a runner
};

/// A session of llmc.h with workers and an arena of its own. Its functions are called by call() and
/// get(); the others have methods because they check, convert or keep memory. The model must
/// outlive it. Errors: what the library refuses is kBadInput or kUnsupported and leaves the session
/// as it was; kToolchain when an emulator ends, and everything fails from then on.
class Session {
 public:
  Session(const ModelFacts& model, const SessionOptions& options, std::filesystem::path path,
          SessionHandle handle)
      : context_(model.ctx),
        vocabulary_(model.vocab),
        slides_(options.full_context == LLMC_FULL_SLIDE),
        path_(std::move(path)),
        handle_(std::move(handle)) {}

  /// Calls a function with this session: call(&Api::rewind, 0).
  template <class Function, class... Arguments>
  Status call(Function Api::* function, Arguments... arguments) {
    return check((api().*function)(handle_.session, arguments...));
  }
  /// Calls a function and returns what it writes to its last parameter:
  /// get<std::int32_t>(&Api::step).
  template <class Value, class Function, class... Arguments>
  Result<Value> get(Function Api::* function, Arguments... arguments) {
    Value value{};
    LLMC_RETURN_IF_ERROR(call(function, arguments..., &value));
    return value;
  }
  Result<std::int32_t> sample() { return get<std::int32_t>(&Api::sample); }
  Result<std::int32_t> step() { return get<std::int32_t>(&Api::step); }
  std::uint32_t position() const {
    return static_cast<std::uint32_t>(api().position(handle_.session));
  }

  /// Appends `tokens`. kBadInput when the context is full, and does not slide, or a token is
  /// outside the vocabulary.
  Status prefill(std::span<const std::int32_t> tokens);
  /// The logits after the last token; empty when nothing was run. Valid until the next call.
  Result<std::span<const float>> logits() { return rows(api().logits(handle_.session), 1); }
  /// After token `row` of the last chunk that was run; empty outside it.
  Result<std::span<const float>> logits_at(std::uint32_t row) {
    return rows(api().logits_at(handle_.session, row), 1);
  }
  /// After `count` tokens from `row` on, at most ModelFacts::batch, with one pass over the weights.
  Result<std::span<const float>> logits_rows(std::uint32_t row, std::uint32_t count) {
    return rows(api().logits_rows(handle_.session, row, count), count);
  }
  /// The `n` most likely next tokens (llmc_candidates).
  Result<std::vector<llmc_candidate>> candidates(int which, std::uint32_t n);
  Status set_logit_bias(std::vector<llmc_logit_bias> biases);
  Status set_dry_breakers(hosted::DryBreakers breakers);
  /// Sets the grammar of these tables, or without any the compiled-in one. kBadInput when they are
  /// damaged or of another vocabulary.
  Status set_grammar(std::string_view tables);
  /// The selected sequence's tokens and cache as bytes (llmc_state_save). kUnsupported under an
  /// emulator.
  Result<std::string> save_state();
  /// kBadInput, and nothing changes, for what is no saved state or another model's.
  Status load_state(std::string_view state);

 private:
  const Api& api() const { return *handle_.api; }
  Status check(llmc_status status) const;
  Result<std::span<const float>> rows(const float* logits, std::size_t count) const;

  const std::uint32_t context_, vocabulary_;
  const bool slides_;
  const std::filesystem::path path_;  // as the user gave it, for messages
  const SessionHandle handle_;
  // The session keeps pointers into these.
  std::vector<llmc_logit_bias> biases_;
  hosted::DryBreakers breakers_;
  struct Grammar;
  std::shared_ptr<Grammar> grammar_;
};

}  // namespace llmc::exec
