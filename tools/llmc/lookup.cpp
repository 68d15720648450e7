#include "tools/llmc/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "compiler/support/file.h"
#include "tools/llmc/numbers.h"

namespace llmc::cli {

void add_lookup_option(CLI::App& app, LookupOptions& options) {
  constexpr std::uint32_t kMaxTokens = 64;
  options.option = add_whole_number(
      app, "--lookup", options.tokens, 1, kMaxTokens,
      "Prompt lookup: maximum tokens of a pass over the weights, drafted from the text so far; the "
      "output is the same; 1: no drafts (default: 1)");
  options.draft_option =
      app.add_option("--draft", options.draft_model,
                     "Draft model for speculative decoding, with the same tokenizer; drafts up to "
                     "--lookup tokens a pass (then default: 8)")
          ->type_name("MODEL");
}

Status prepare_lookup(LookupOptions& options, driver::CompileOptions& compile) {
  constexpr std::uint32_t kDrafted = 8;
  if (options.draft_option->count() > 0) {
    if (options.option->count() == 0) options.tokens = kDrafted;
    std::error_code error;
    if (options.draft_model.empty())
      return usage_error("--draft is empty", "name a model, or leave it out");
    if (!options.on())
      return usage_error("--draft has no effect with --lookup 1",
                         "leave out one of them, or let a pass have more tokens");
    // Report a wrong path before the model is compiled.
    if (!std::filesystem::exists(options.draft_model, error))
      return system_error(options.draft_model, "open", error ? error.value() : ENOENT);
  }
  compile.batch = std::max(compile.batch, options.tokens);
  return ok_status();
}

Status check_lookup(LookupOptions& options, const exec::ModelFacts& model,
                    const llmc_sampling& sampling, const Globals& globals) {
  if (!options.on()) return ok_status();
  if (model.single_steps != 0 || sampling.mirostat != 0) {
    remark(globals, fmt::format("{} has no effect {}", options.name(),
                                model.single_steps != 0
                                    ? fmt::format("on a model with {}", kSingleStepsReason)
                                    : "with --mirostat"));
    options.tokens = 1;
    options.draft_model.clear();
    return ok_status();
  }
  if (options.tokens <= model.batch) return ok_status();
  return usage_error(
      fmt::format("passes of {} tokens ({}) need a bundle with a batch of {}; it has {}",
                  options.tokens, options.name(), options.tokens, model.batch),
      fmt::format("compile it with --batch={}{}", options.tokens,
                  model.batch > 1 ? fmt::format(", or use --lookup {}", model.batch) : ""));
}

Result<std::int32_t> LookupText::sample(std::size_t wanted) {
  if (is_ahead()) return ahead_.front();
  if (stop_) return *stop_;
  // A full context has no room for the token that is sampled.
  if (max_tokens_ <= 1 || wanted <= 1 || session_.position() >= context_) return session_.sample();
  const std::uint32_t before = session_.position();
  const std::size_t most = std::min<std::size_t>(max_tokens_, wanted);
  LLMC_TRY(const std::vector<std::int32_t> tokens, drafts_ != nullptr
                                                       ? drafts_->step(session_, most, stop_ids_)
                                                       : session_.step_lookup(most, stop_ids_));
  const std::uint32_t appended = session_.position() - before;
  ahead_.assign(tokens.begin(), tokens.begin() + appended);
  if (appended < tokens.size()) stop_ = tokens.back();
  row_ = 0;
  if (appended > 0) ++passes_.count;
  passes_.tokens += appended;
  return tokens.front();
}

Status LookupText::append(std::span<const std::int32_t> tokens) {
  while (!tokens.empty() && is_ahead() && ahead_.front() == tokens.front()) {
    ahead_.pop_front();
    ++row_;
    tokens = tokens.subspan(1);
  }
  if (tokens.empty()) return ok_status();
  LLMC_RETURN_IF_ERROR(rewind(position()));
  return session_.prefill(tokens);
}

Result<std::span<const float>> LookupText::logits() {
  return is_ahead() && row_ > 0 ? session_.logits_at(row_ - 1) : session_.logits();
}

Status LookupText::drop_ahead(std::int32_t last) {
  if (!is_ahead()) return ok_status();
  const std::uint32_t end = position();
  if (end == 0) return rewind(0);
  LLMC_RETURN_IF_ERROR(rewind(end - 1));
  return session_.prefill(std::span(&last, 1));
}

Status LookupText::rewind(std::size_t position) {
  ahead_.clear();
  stop_.reset();
  row_ = 0;
  return session_.call(&exec::Api::rewind, position);
}

std::string lookup_text(double tokens_per_pass, std::string_view name) {
  if (tokens_per_pass == 0) return {};
  return fmt::format("; {}: {:.2f} tokens per pass", name.substr(2), tokens_per_pass);
}

}  // namespace llmc::cli
