#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/generate.h"
#include "tools/llmc/lookup.h"

namespace llmc::cli {

/// Adapts a native session, in this process or under an emulator, for conversations.
class NativeSequence final : public hosted::Sequence {
 public:
  /// `session` and `model` must outlive the object. `grammar`: the grammar that constrains every
  /// text, in the form of Session::set_grammar(); nullopt: none.
  NativeSequence(exec::Session& session, const exec::ModelFacts& model,
                 std::optional<std::string> grammar, LookupText text)
      : session_(session), model_(model), grammar_(std::move(grammar)), text_(std::move(text)) {}

  llmc_status append(std::span<const std::int32_t> tokens) override {
    if (!tokens.empty()) last_ = tokens.back();
    return noted(text_.append(tokens));
  }
  llmc_status sample(std::int32_t& token) override {
    auto sampled = text_.sample();
    if (!sampled.ok()) return noted(std::move(sampled).error());
    token = *sampled;
    return LLMC_OK;
  }
  llmc_status rewind(std::size_t position) override { return noted(text_.rewind(position)); }
  llmc_status begin_text() override {
    if (!grammar_) return LLMC_OK;
    const llmc_status status = noted(text_.drop_ahead(last_));
    return status == LLMC_OK ? noted(session_.set_grammar(*grammar_)) : status;
  }
  llmc_status text_is_complete(bool& complete) override {
    complete = false;
    if (!grammar_ || text_.is_ahead()) return LLMC_OK;
    auto state = session_.get<int>(&exec::Api::text_state);
    if (!state.ok()) return noted(std::move(state).error());
    complete = *state == LLMC_GRAMMAR_COMPLETE;
    return LLMC_OK;
  }
  llmc_status save_state(std::string& state) override {
    if (const llmc_status status = noted(text_.drop_ahead(last_))) return status;
    auto saved = session_.save_state();
    if (!saved.ok()) return noted(std::move(saved).error());
    state = *std::move(saved);
    return LLMC_OK;
  }
  llmc_status load_state(std::string_view state) override {
    const llmc_status status = noted(text_.rewind(text_.position()));
    return status == LLMC_OK ? noted(session_.load_state(state)) : status;
  }
  llmc_status reset() override {
    const llmc_status status = noted(text_.rewind(0));
    return status == LLMC_OK ? noted(session_.call(&exec::Api::reset)) : status;
  }
  /// Returns the passes with --lookup or --draft.
  const LookupPasses& passes() const { return text_.passes(); }
  std::size_t position() const override { return text_.position(); }
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
  LookupText text_;
  std::int32_t last_ = -1;  // last token of the text
  std::optional<Error> error_;
};

}  // namespace llmc::cli
