#pragma once

#include <CLI/CLI.hpp>

#include "compiler/driver/source.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {

/// `llmc verify` of a graph that is compiled as a function: its outputs against the interpreter's.
/// kUsage for options of `app` that are about texts. Returns the exit code.
int verify_function(const CLI::App& app, const ModelOptions& model,
                    const exec::NativeOptions& native, driver::Source source, std::uint32_t threads,
                    TableFormat format, const Globals& globals);

}  // namespace llmc::cli
