#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/generate.h"

namespace llmc::cli {

/// Adapts a native session, in this process or under an emulator, for conversations.
class NativeSequence final : public hosted::Sequence {
 public:
  /// `grammar`: the grammar that constrains every text, in the form of Session::set_grammar;
  /// nullopt: none.
  NativeSequence(exec::Session& session, const exec::ModelFacts& model,
                 std::optional<std::string> grammar)
      : session_(session), model_(model), grammar_(std::move(grammar)) {}

  llmc_status append(std::span<const std::int32_t> tokens) override {
    return noted(session_.prefill(tokens));
  }
  llmc_status sample(std::int32_t& token) override {
    auto sampled = session_.sample();
    if (!sampled.ok()) return noted(std::move(sampled).error());
    token = *sampled;
    return LLMC_OK;
  }
  llmc_status rewind(std::size_t position) override {
    return noted(session_.call(&exec::Api::rewind, position));
  }
  llmc_status begin_text() override {
    return grammar_ ? noted(session_.set_grammar(*grammar_)) : LLMC_OK;
  }
  llmc_status text_is_complete(bool& complete) override {
    complete = false;
    if (!grammar_) return LLMC_OK;
    auto state = session_.get<int>(&exec::Api::text_state);
    if (!state.ok()) return noted(std::move(state).error());
    complete = *state == LLMC_GRAMMAR_COMPLETE;
    return LLMC_OK;
  }
  llmc_status save_state(std::string& state) override {
    auto saved = session_.save_state();
    if (!saved.ok()) return noted(std::move(saved).error());
    state = *std::move(saved);
    return LLMC_OK;
  }
  llmc_status load_state(std::string_view state) override {
    return noted(session_.load_state(state));
  }
  llmc_status reset() override { return noted(session_.call(&exec::Api::reset)); }
  std::size_t position() const override { return session_.position(); }
  std::size_t context() const override { return model_.ctx; }
  std::size_t chunk() const override { return model_.chunk; }
  std::size_t vocabulary() const override { return model_.vocab; }

  /// Returns and clears the last error message, which is more detailed than a status.
  std::optional<Error> take_error() { return std::exchange(error_, std::nullopt); }

 private:
  llmc_status noted(Status status) {
    if (status.ok()) return LLMC_OK;
    error_ = std::move(status).error();
    return LLMC_ERROR_ARGUMENT;
  }

  exec::Session& session_;
  const exec::ModelFacts& model_;
  const std::optional<std::string> grammar_;
  std::optional<Error> error_;
};

}  // namespace llmc::cli
