#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "llmc/llmc.h"
#include "llmc/model.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// The functions of llmc.h in a loaded library, which has its own copy and version of the runtime.
struct LibraryApi {
  decltype(&llmc_prefill) prefill;
  decltype(&llmc_step) step;
  decltype(&llmc_sample) sample;
  decltype(&llmc_append) append;
  decltype(&llmc_set_sampling) set_sampling;
  decltype(&llmc_set_logit_bias) set_logit_bias;
  decltype(&llmc_set_dry_breakers) set_dry_breakers;
  decltype(&llmc_candidates) candidates;
  decltype(&llmc_logprob) logprob;
  decltype(&llmc_logits) logits;
  decltype(&llmc_logits_at) logits_at;
  decltype(&llmc_logits_rows) logits_rows;
  decltype(&llmc_last_chunk) last_chunk;
  decltype(&llmc_position) position;
  decltype(&llmc_rewind) rewind;
  decltype(&llmc_reset) reset;
  decltype(&llmc_slide) slide;
  decltype(&llmc_state_bytes) state_bytes;
  decltype(&llmc_state_save) state_save;
  decltype(&llmc_state_load) state_load;
  decltype(&llmc_select) select;
  decltype(&llmc_new_sequence) new_sequence;
  decltype(&llmc_fork) fork;
  decltype(&llmc_release) release;
  decltype(&llmc_set_guidance) set_guidance;
  decltype(&llmc_append_batch) append_batch;
  decltype(&llmc_step_batch) step_batch;
  decltype(&llmc_free_blocks) free_blocks;
  decltype(&llmc_grammar_init) grammar_init;
  decltype(&llmc_set_grammar) set_grammar;
  decltype(&llmc_text_state) text_state;
  decltype(&llmc_status_text) status_text;
};

/// A session of a loaded library; owns its arena.
class LibrarySession {
 public:
  ~LibrarySession();
  LibrarySession(const LibrarySession&) = delete;
  LibrarySession& operator=(const LibrarySession&) = delete;

  /// Handle for the functions of api().
  llmc_session* handle() const { return session_; }
  const LibraryApi& api() const { return *api_; }
  /// Returns the last message that the library logged, unless the configuration had a log callback;
  /// or empty.
  const std::string& last_message() const { return message_; }

 private:
  friend class ModelLibrary;
  LibrarySession() = default;

  const LibraryApi* api_ = nullptr;
  llmc_session* session_ = nullptr;
  void* arena_ = nullptr;
  std::size_t arena_bytes_ = 0;
  std::string message_;
};

/// A compiled model as a shared library (an archive linked with -shared -Wl,-Bsymbolic
/// --whole-archive), loaded with dlopen. It must outlive its sessions.
class ModelLibrary {
 public:
  /// `name` is the name under which the model was compiled: the library exports `NAME_model` and
  /// `NAME_init`. LLMC_ERROR_FILE if it cannot be loaded; LLMC_ERROR_ARGUMENT if `name` is not a C
  /// identifier; LLMC_ERROR_FORMAT if a function is missing; LLMC_ERROR_VERSION if the versions
  /// differ.
  static Outcome<std::unique_ptr<ModelLibrary>> open(const std::filesystem::path& path,
                                                     std::string_view name);
  ~ModelLibrary();
  ModelLibrary(const ModelLibrary&) = delete;
  ModelLibrary& operator=(const ModelLibrary&) = delete;

  const llmc_model& model() const { return *model_; }
  const LibraryApi& api() const { return api_; }
  /// Returns the tables of the compiled-in grammar for llmc_grammar_init; empty if there is none.
  std::span<const std::byte> grammar() const { return grammar_; }

  /// Creates a session with a new arena of model().arena_bytes. A Failure contains the library's
  /// status and log message.
  Outcome<std::unique_ptr<LibrarySession>> start(const llmc_config& config) const;

 private:
  using InitFunction = llmc_status (*)(llmc_session**, void*, size_t, const llmc_config*);
  ModelLibrary() = default;

  void* handle_ = nullptr;
  const llmc_model* model_ = nullptr;
  InitFunction init_ = nullptr;
  LibraryApi api_{};
  std::span<const std::byte> grammar_;
};

}  // namespace llmc::hosted
