#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "compiler/driver/compile.h"

namespace llmc::cli {

/// Options of the compiled-in system prompt.
struct SystemPromptOptions {
  std::optional<std::string> file, tokens;
};

void add_system_prompt_options(CLI::App& app, SystemPromptOptions& options);
/// Reads the given prompt, if any, into `compile`. Fails with kBadInput for an unreadable file, and
/// with kUsage for invalid ids.
Status apply(const SystemPromptOptions& options, driver::CompileOptions& compile);

}  // namespace llmc::cli
