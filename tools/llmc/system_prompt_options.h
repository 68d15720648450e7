#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/driver/compile.h"

namespace llmc::cli {

/// The prompt that a model is compiled with.
struct SystemPromptOptions {
  std::string file, tokens;
  CLI::Option *file_option = nullptr, *tokens_option = nullptr;
};

void add_system_prompt_options(CLI::App& app, SystemPromptOptions& options);
/// Reads it; kBadInput for a file that cannot be read, kUsage for what are no ids.
Status apply(const SystemPromptOptions& options, driver::CompileOptions& compile);

}  // namespace llmc::cli
