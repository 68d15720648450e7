#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "llmc/beams.h"
#include "llmc/device.h"
#include "llmc/embeddings.h"
#include "llmc/llmc.h"
#include "llmc/model.h"
#include "llmc/shards.h"
#include "llmc/speculation.h"
#include "runtime/hosted/huge_pages.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

// clang-format off
/// Names, without `llmc_`, of the functions that callers of a loaded library use, from llmc.h,
/// beams.h, device.h, embeddings.h, shards.h and speculation.h.
#define LLMC_LIBRARY_FUNCTIONS(F)                                                            \
  F(encode) F(encode_features)                                                               \
  F(append_embeddings) F(append_embeddings_at) F(encode_image)                               \
  F(device_status) F(device_jobs)                                                            \
  F(forward_hidden) F(forward_hidden_batch)                                                  \
  F(prefill) F(step) F(sample) F(append) F(append_batch) F(step_batch)                       \
  F(set_sampling) F(set_logit_bias) F(set_dry_breakers) F(set_guidance)                      \
  F(candidates) F(logprob) F(logits) F(logits_at) F(logits_rows) F(last_chunk)               \
  F(logits_computed)                                                                         \
  F(position) F(rewind) F(reset) F(slide) F(state_bytes) F(state_save) F(state_load)         \
  F(select) F(new_sequence) F(fork) F(release) F(free_blocks)                                \
  F(grammar_init) F(set_grammar) F(text_state) F(status_text)                                \
  F(beams_init) F(beams_step) F(beams_count) F(beams_result) F(beams_end) F(step_lookup) \
  F(step_draft) F(tokens)
// clang-format on

/// Pointers to these functions in a loaded library, which has its own copy and version of the
/// runtime.
struct LibraryApi {
#define LLMC_LIBRARY_POINTER(name) decltype(&llmc_##name) name = nullptr;
  LLMC_LIBRARY_FUNCTIONS(LLMC_LIBRARY_POINTER)
#undef LLMC_LIBRARY_POINTER
};

/// A session of a loaded library. Owns its arena.
class LibrarySession {
 public:
  LibrarySession(const LibrarySession&) = delete;
  LibrarySession& operator=(const LibrarySession&) = delete;

  /// Returns the session for the functions of api().
  llmc_session* handle() const { return session_; }
  const LibraryApi& api() const { return *api_; }
  /// Returns the last message that the library logged; empty if there is none, or if the
  /// configuration has its own log callback.
  const std::string& last_message() const { return message_; }

 private:
  friend class ModelLibrary;
  LibrarySession() = default;

  const LibraryApi* api_ = nullptr;
  llmc_session* session_ = nullptr;
  Arena arena_;
  std::string message_;
};

/// A compiled model as a shared library that is loaded with dlopen. The library is a model's
/// archive linked with -shared -Wl,-Bsymbolic,--whole-archive. Must outlive its sessions.
class ModelLibrary {
 public:
  /// Loads a library. `name` is the name of the compiled model: the library exports `NAME_model`
  /// and `NAME_init`. Fails with LLMC_ERROR_FILE if the library cannot be loaded, with
  /// LLMC_ERROR_ARGUMENT if `name` is not a C identifier, with LLMC_ERROR_FORMAT if one of these
  /// symbols or a function of LibraryApi is missing, and with LLMC_ERROR_VERSION if its version is
  /// not this runtime's.
  static Outcome<std::unique_ptr<ModelLibrary>> open(const std::filesystem::path& path,
                                                     std::string_view name);
  ~ModelLibrary();
  ModelLibrary(const ModelLibrary&) = delete;
  ModelLibrary& operator=(const ModelLibrary&) = delete;

  const llmc_model& model() const { return *model_; }
  const LibraryApi& api() const { return api_; }
  /// Returns the tables of the compiled-in grammar for llmc_grammar_init; empty if there is none.
  std::span<const std::byte> grammar() const { return grammar_; }

  /// Creates a session with a new arena of model().arena_bytes bytes, with `huge_pages` in huge
  /// pages if there are any. Fails with LLMC_ERROR_MODEL if that size is invalid, with
  /// LLMC_ERROR_MEMORY if the arena cannot be allocated, or with the library's status and log
  /// message.
  Outcome<std::unique_ptr<LibrarySession>> start(const llmc_config& config,
                                                 bool huge_pages = false) const;

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
