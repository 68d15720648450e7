#pragma once

#include <cstdint>

#include "compiler/exec/native.h"
#include "tools/llmc/options.h"

/// What a command that generates does when the context is full, with llama.cpp's names.
namespace llmc::cli {

struct ContextOptions {
  std::int32_t keep = 0;  // tokens of the prompt; -1: all
  bool shift = false;
  CLI::Option* keep_option = nullptr;
};

/// --keep, --context-shift, --no-context-shift.
void add_context_options(CLI::App& app, ContextOptions& options);

/// kUsage for --keep where nothing is dropped, and for a text that cannot lose its beginning: one
/// held to a grammar, or guided by another one.
Status check_context(const ContextOptions& options, bool grammar, bool guidance);

/// Sets what a session keeps that runs a prompt of `tokens` tokens after `compiled_in` ones: those,
/// the `beginning` tokens of the prompt, and as many of the rest as were asked for.
void apply(const ContextOptions& options, std::uint32_t compiled_in, std::size_t beginning,
           std::size_t tokens, exec::SessionOptions& session);

/// Whether one more token finds room: a full context moves up where some of it may go.
bool has_room(const exec::SessionOptions& session, const exec::ModelInfo& model,
              std::uint32_t position);

/// -n: most tokens to generate; -1 and -2 are no limit, and -2 ends where the context is full even
/// if it could move up.
void add_predict(CLI::App& app, std::int32_t& count, const std::string& text);

}  // namespace llmc::cli
