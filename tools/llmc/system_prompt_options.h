#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/driver/compile.h"

namespace llmc::cli {

/// Options of the compiled-in system prompt.
struct SystemPromptOptions {
  std::string file, tokens;
  CLI::Option *file_option = nullptr, *tokens_option = nullptr;
};

void add_system_prompt_options(CLI::App& app, SystemPromptOptions& options);
/// Reads the prompt; kBadInput for an unreadable file, kUsage for invalid ids.
Status apply(const SystemPromptOptions& options, driver::CompileOptions& compile);

}  // namespace llmc::cli
