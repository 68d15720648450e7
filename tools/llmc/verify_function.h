#pragma once

#include <CLI/CLI.hpp>

#include "compiler/driver/source.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {

/// Implements `llmc verify` for a graph that is compiled as a function. Compares its outputs with
/// those of the interpreter, and the bits of one thread with those of several. Returns exit code 0.
/// Fails with kUsage for options that apply to texts, and with kMismatch if outputs differ by more
/// than the weight format allows or bits differ.
Result<int> verify_function(const CLI::App& app, const ModelOptions& model,
                            const exec::NativeOptions& native, driver::Source source,
                            std::uint32_t threads, TableFormat format, const Globals& globals);

}  // namespace llmc::cli
