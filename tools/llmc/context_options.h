#pragma once

#include <cstdint>

#include "compiler/exec/native.h"
#include "tools/llmc/options.h"

/// Options for a full context, with llama.cpp's names.
namespace llmc::cli {

struct ContextOptions {
  std::int32_t keep = 0;  // tokens of the prompt; -1: all
  bool shift = false;
  CLI::Option* keep_option = nullptr;
};

/// Adds --keep, --context-shift and --no-context-shift.
void add_context_options(CLI::App& app, ContextOptions& options);

/// Fails with kUsage for --keep without --context-shift, and for --context-shift with a grammar or
/// guidance.
Status check_context(const ContextOptions& options, bool grammar, bool guidance);

/// With --context-shift, lets the context slide and sets the number of first tokens that are never
/// dropped: the `compiled_in` tokens, the first `beginning` of the prompt's `tokens` tokens, and
/// --keep more tokens of the prompt.
void apply(const ContextOptions& options, std::uint32_t compiled_in, std::size_t beginning,
           std::size_t tokens, exec::SessionOptions& session);

/// Returns whether a token at `position` fits. It also fits if the context is full but slides and
/// has tokens that may be dropped.
bool has_room(const exec::SessionOptions& session, const exec::ModelFacts& model,
              std::uint32_t position);

/// Adds -n, the maximum number of tokens to generate. -1 and -2: no limit; with -2 the text ends
/// when the context is full, even with --context-shift.
void add_predict(CLI::App& app, std::int32_t& count, const std::string& text);

}  // namespace llmc::cli
