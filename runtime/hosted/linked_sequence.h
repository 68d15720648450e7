#pragma once

#include "runtime/hosted/chat/generate.h"

namespace llmc::hosted {

/// A session of a library that is linked into this program.
class LinkedSequence final : public Sequence {
 public:
  /// The session's grammar functions. They are pointers, so that only programs with a grammar link
  /// the functions.
  struct GrammarCalls {
    llmc_status (*set)(llmc_session*, llmc_grammar*) = nullptr;
    llmc_status (*text_state)(llmc_session*, int*) = nullptr;
  };

  /// The session's functions for saved states. They are pointers for the same reason.
  struct StateCalls {
    size_t (*bytes)(const llmc_session*) = nullptr;
    llmc_status (*save)(llmc_session*, void*, size_t, size_t*) = nullptr;
    llmc_status (*load)(llmc_session*, const void*, size_t) = nullptr;
  };

  explicit LinkedSequence(llmc_session* session) : session_(session) {}
  llmc_status append(std::span<const std::int32_t> tokens) override {
    return llmc_prefill(session_, tokens.data(), tokens.size(), nullptr);
  }
  llmc_status sample(std::int32_t& token) override { return llmc_sample(session_, &token); }
  llmc_status rewind(std::size_t position) override { return llmc_rewind(session_, position); }
  llmc_status reset() override { return llmc_reset(session_); }
  llmc_status begin_text() override {
    return grammar_ == nullptr ? LLMC_OK : calls_.set(session_, grammar_);
  }
  llmc_status text_is_complete(bool& complete) override {
    complete = false;
    if (grammar_ == nullptr) return LLMC_OK;
    int state = LLMC_GRAMMAR_INCOMPLETE;
    const llmc_status bad = calls_.text_state(session_, &state);
    complete = bad == LLMC_OK && state == LLMC_GRAMMAR_COMPLETE;
    return bad;
  }
  llmc_status save_state(std::string& state) override {
    if (state_calls_.save == nullptr) return LLMC_ERROR_STATE;
    state.resize(state_calls_.bytes(session_));
    return state_calls_.save(session_, state.data(), state.size(), nullptr);
  }
  llmc_status load_state(std::string_view state) override {
    if (state_calls_.load == nullptr) return LLMC_ERROR_STATE;
    return state_calls_.load(session_, state.data(), state.size());
  }
  std::size_t position() const override { return llmc_position(session_); }
  std::size_t context() const override { return llmc_context_size(session_); }
  std::size_t chunk() const override { return llmc_chunk_size(session_); }
  std::size_t vocabulary() const override { return llmc_vocabulary_size(session_); }

  /// Constrains every text that begins after this call to the grammar; nullptr: no grammar.
  llmc_status constrain_to(llmc_grammar* grammar, GrammarCalls calls) {
    // This call only detects errors: begin_text() sets the grammar for each text.
    if (const llmc_status bad = calls.set(session_, grammar)) return bad;
    grammar_ = grammar;
    calls_ = calls;
    return LLMC_OK;
  }
  /// Makes save_state() and load_state() possible, which otherwise fail with LLMC_ERROR_STATE.
  void use(StateCalls calls) { state_calls_ = calls; }

 private:
  llmc_session* session_;
  llmc_grammar* grammar_ = nullptr;
  GrammarCalls calls_;
  StateCalls state_calls_;
};

}  // namespace llmc::hosted
