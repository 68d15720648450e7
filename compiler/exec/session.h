#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

class Ranks;

using Api = hosted::LibraryApi;
/// Numbers of llmc_model that users of a session need.
using ModelFacts = runner::ModelFacts;

struct SessionOptions {
  std::uint32_t threads = 1;
  /// Prompt tokens per forward pass; 0: NativeModel::limit_chunk(), or else the model's maximum.
  std::uint32_t chunk = 0;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::uint32_t begin = LLMC_BEGIN_PROMPT;
  std::uint32_t full_context = LLMC_FULL_STATUS;  // LLMC_FULL_…
  /// With LLMC_FULL_SLIDE: number of first tokens that are never removed.
  std::uint32_t keep_first = 0;
  bool use_device = true;  // whether an accelerator computes the model's regions, or the CPU
  /// The accelerator that computes the regions; empty: the one that the model was compiled for.
  std::string device = {};
};

/// Work of an accelerator: number of jobs, and bytes of rows copied from and to the device.
struct DeviceUse {
  std::string name;  // "opencl, PLATFORM: DEVICE"
  std::uint64_t jobs = 0, copied_bytes = 0;
};

/// A session and the functions that operate on it: those of a loaded library, or functions that
/// send requests to a runner process.
struct SessionHandle {
  std::shared_ptr<void> owner;
  const Api* api = nullptr;  // functions that a runner does not support are nullptr
  llmc_session* session = nullptr;
  /// The last message that the session logged, or empty.
  const std::string* message = nullptr;
  /// Why no further call can succeed: the runner has ended, or ranks differ.
  const std::optional<Error>* failure = nullptr;
  std::vector<std::uint64_t> image_bytes = {};  // sizes of the media encoder's inputs
  /// Name of the accelerator that computes regions, and a function that returns the bytes that it
  /// has copied; empty: no accelerator.
  std::string device = {};
  std::function<std::uint64_t()> copied_bytes = {};
  std::span<const std::byte> grammar;  // tables of the compiled-in grammar; empty in a runner
  Ranks* ranks = nullptr;              // of a model in several processes (ranks.h)
};

/// The source that an encoder-decoder attends to: token ids, or features of sound or an image in
/// the order of the encoder's input. Empty for a decoder.
struct EncoderInput {
  std::vector<std::int32_t> ids;
  std::vector<float> features;

  bool empty() const { return ids.empty() && features.empty(); }
};

/// A text that a beam search found.
struct BeamResult {
  std::vector<std::int32_t> tokens;
  float score = 0;
};

/// Returns `count` pseudorandom features in [-1, 1), the same in every call.
std::vector<float> random_features(std::size_t count);

/// Checks the source for an encoder-decoder. Fails with kUsage if it is empty or has the wrong kind
/// (ids or features), is longer or shorter than the encoder allows, or has an incomplete frame.
/// Also fails with kUsage if the model has no encoder and the source is not empty.
Status check_source(const ModelFacts& model, const EncoderInput& source);

/// A session of llmc.h with its own threads and arena. Most functions of llmc.h are called through
/// call() and get(); those that check, convert or keep data have methods of their own. The model
/// must outlive the session. Errors of the library are kBadInput or kUnsupported and leave the
/// session unchanged, except those of encode() (llmc_encode). If the emulator ends, the current
/// call and all later calls fail with kToolchain.
class Session {
 public:
  Session(const ModelFacts& model, const SessionOptions& options, std::filesystem::path path,
          SessionHandle handle)
      : model_(model),
        context_(model.ctx),
        vocabulary_(model.vocab),
        slides_(options.full_context == LLMC_FULL_SLIDE),
        path_(std::move(path)),
        handle_(std::move(handle)) {}

  /// Calls a function with this session: call(&Api::rewind, 0).
  template <class Function, class... Arguments>
  Status call(Function Api::* function, Arguments... arguments) {
    return check((api().*function)(handle_.session, arguments...));
  }
  /// Calls a function and returns the value that it writes to its last parameter:
  /// get<std::int32_t>(&Api::step).
  template <class Value, class Function, class... Arguments>
  Result<Value> get(Function Api::* function, Arguments... arguments) {
    Value value{};
    LLMC_RETURN_IF_ERROR(call(function, arguments..., &value));
    return value;
  }
  /// Returns llmc_logits_computed, or the vocabulary's size if the session cannot tell.
  std::size_t logits_computed() const {
    return api().logits_computed ? api().logits_computed(handle_.session) : vocabulary_;
  }
  Result<std::int32_t> sample() { return get<std::int32_t>(&Api::sample); }
  Result<std::int32_t> step() { return get<std::int32_t>(&Api::step); }
  /// Chooses and appends up to `most` tokens in one pass (llmc_step_lookup).
  Result<std::vector<std::int32_t>> step_lookup(std::size_t most,
                                                std::span<const std::int32_t> stop_ids) {
    std::vector<std::int32_t> tokens(most);
    LLMC_TRY(const std::size_t count, get<std::size_t>(&Api::step_lookup, most, stop_ids.data(),
                                                       stop_ids.size(), tokens.data()));
    tokens.resize(count);
    return tokens;
  }
  /// Like step_lookup(), with the draft `draft` (llmc_step_draft). Must not be called under an
  /// emulator, which does not support it.
  Result<std::vector<std::int32_t>> step_draft(std::span<const std::int32_t> draft,
                                               std::span<const std::int32_t> stop_ids) {
    std::vector<std::int32_t> tokens(std::max<std::size_t>(draft.size(), 1));
    LLMC_TRY(const std::size_t count,
             get<std::size_t>(&Api::step_draft, draft.data(), draft.size(), stop_ids.data(),
                              stop_ids.size(), tokens.data()));
    tokens.resize(count);
    return tokens;
  }
  std::uint32_t position() const {
    return static_cast<std::uint32_t>(api().position(handle_.session));
  }

  /// Waits until all ranks have called it. Does nothing for a model in a single process.
  void wait_for_ranks() const;
  /// Encodes a source (llmc_encode, llmc_encode_features). Fails like check_source(), and with
  /// kBadInput if an id is outside the encoder's vocabulary.
  Status encode(const EncoderInput& source);
  /// Returns what the model's accelerator has computed since start; nullopt if there is none.
  std::optional<DeviceUse> device_use() const;
  /// Appends `tokens` and runs the model on them. Fails with kBadInput if a token is outside the
  /// vocabulary, or if the tokens do not fit the context and it does not slide. Fails with
  /// kUnsupported if the model's device has failed; the CPU has then run the model on the tokens.
  Status prefill(std::span<const std::int32_t> tokens);
  /// Appends rows of embeddings (llmc_append_embeddings). Fails with kUnsupported if the model does
  /// not accept embeddings. Fails with kBadInput if the number of floats is not a multiple of the
  /// row size, if one is not finite, or if the rows do not fit the context and it does not slide.
  Status append_embeddings(std::span<const float> rows);
  /// Appends rows of embeddings at the given positions (llmc_append_embeddings_at). `positions` has
  /// ModelFacts::position_axes numbers per row. The model must have position axes (LLMC_CHECK).
  Status append_embeddings_at(std::span<const float> rows, std::span<const std::int32_t> positions);
  /// Computes the rows of an image or a sound (llmc_encode_image). `inputs`: the data of
  /// BundleFacts::image_inputs. Fails with kUnsupported if the model has no media encoder, and with
  /// kBadInput if an input has another size or an index in it is out of range.
  Result<std::vector<float>> encode_image(std::span<const std::span<const std::byte>> inputs);
  /// Returns the logits after the last token; empty if no token was run. Valid until the next call.
  Result<std::span<const float>> logits() { return rows(api().logits(handle_.session), 1); }
  /// Returns the logits after token `row` of the last chunk; empty if there is no such token.
  Result<std::span<const float>> logits_at(std::uint32_t row) {
    return rows(api().logits_at(handle_.session, row), 1);
  }
  /// Returns the logits after `count` tokens of the last chunk, beginning with token `row`; empty
  /// if there are no such tokens. `count` is at most ModelFacts::batch. Reads the weights once.
  Result<std::span<const float>> logits_rows(std::uint32_t row, std::uint32_t count) {
    return rows(api().logits_rows(handle_.session, row, count), count);
  }
  /// Returns the `n` most likely next tokens (llmc_candidates).
  Result<std::vector<llmc_candidate>> candidates(int which, std::uint32_t n);
  /// Begins a beam search after the selected sequence's tokens (llmc_beams_init). `memory`, of at
  /// least llmc_beams_bytes() bytes, must outlive the search.
  Result<llmc_beams*> begin_beams(std::span<std::uint64_t> memory,
                                  const llmc_beam_options& options);
  /// Runs a step of the search and returns 1 if the search is done, otherwise 0.
  Result<int> step_beams(llmc_beams* search);
  /// Ends the search and returns its texts, best first.
  Result<std::vector<BeamResult>> end_beams(llmc_beams* search);
  Status set_logit_bias(std::vector<llmc_logit_bias> biases);
  Status set_dry_breakers(hosted::DryBreakers breakers);
  /// Sets the grammar with these tables; empty: the compiled-in grammar. Fails with kBadInput if
  /// the tables are damaged or made for another vocabulary.
  Status set_grammar(std::string_view tables);
  /// Returns the tokens and cache of the selected sequence as bytes (llmc_state_save). Fails with
  /// kUnsupported under an emulator.
  Result<std::string> save_state();
  /// Restores the result of save_state(). Fails with kBadInput, and changes nothing, if `state` is
  /// not a saved state of this model. Fails with kUnsupported under an emulator.
  Status load_state(std::string_view state);

 private:
  const Api& api() const { return *handle_.api; }
  Status check(llmc_status status) const;
  Status check_room(std::size_t tokens) const;
  Status check_rows(std::span<const float> rows) const;
  Result<std::span<const float>> rows(const float* logits, std::size_t count) const;

  const ModelFacts model_;
  const std::uint32_t context_, vocabulary_;
  const bool slides_;
  const std::filesystem::path path_;  // the path that the user passed, for messages
  const SessionHandle handle_;
  // The session keeps pointers to these members.
  std::vector<std::vector<llmc_logit_bias>> biases_;  // all lists so far: forks may use old ones
  hosted::DryBreakers breakers_;
  struct Grammar;
  std::shared_ptr<Grammar> grammar_;
};

}  // namespace llmc::exec
