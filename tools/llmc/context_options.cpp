#include "tools/llmc/context_options.h"

#include <algorithm>

#include "tools/llmc/numbers.h"

namespace llmc::cli {

void add_context_options(CLI::App& app, ContextOptions& options) {
  app.add_flag("--context-shift,!--no-context-shift", options.shift,
               "Drop the older half of the tokens after --keep when the context is full (default: "
               "end the text)");
  options.keep_option = add_token_count(
      app, "--keep", options.keep, -1, INT32_MAX,
      "Prompt tokens at the start that --context-shift keeps, -1: all (default: 0)");
}

Status check_context(const ContextOptions& options, bool grammar, bool guidance) {
  if (options.keep_option->count() > 0 && !options.shift) {
    return usage_error("--keep needs --context-shift",
                       "without it no tokens are dropped: the text ends when the context is full");
  }
  if (options.shift && grammar) {
    return usage_error("--context-shift cannot be combined with a grammar",
                       "a grammar needs the whole text; use a larger --ctx");
  }
  if (options.shift && guidance) {
    return usage_error("--context-shift cannot be combined with --cfg-scale",
                       "the two texts would not shift together; use a larger --ctx");
  }
  return ok_status();
}

void apply(const ContextOptions& options, std::uint32_t compiled_in, std::size_t beginning,
           std::size_t tokens, exec::SessionOptions& session) {
  if (!options.shift) return;
  session.full_context = LLMC_FULL_SLIDE;
  const std::size_t requested = options.keep < 0 ? tokens : static_cast<std::size_t>(options.keep);
  const std::size_t kept = std::min(tokens, beginning + requested);
  session.keep_first = compiled_in + static_cast<std::uint32_t>(kept);
}

bool has_room(const exec::SessionOptions& session, const exec::ModelFacts& model,
              std::uint32_t position) {
  if (position < model.ctx) return true;
  return session.full_context == LLMC_FULL_SLIDE && session.keep_first < model.ctx;
}

void add_predict(CLI::App& app, std::int32_t& count, const std::string& text) {
  add_token_count(app, "-n,--n-predict,--predict", count, -2, INT32_MAX, text);
}

}  // namespace llmc::cli
