#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/exec/native.h"
#include "tools/llmc/cli.h"

/// The option --huge-pages, and notes about its effect.
namespace llmc::cli {

/// Adds --huge-pages auto|always|never, which sets `choice`. Sets `choice` to kAuto, the default.
CLI::Option* add_huge_pages(CLI::App& app, exec::HugePages& choice);

/// Returns one line: "huge pages: 283.00 MiB of weights copied in 0.08 s, arena".
std::string huge_pages_text(const exec::HugePageUse& use);

/// Prints a note if --huge-pages=always had no full effect. With --verbose, always prints how huge
/// pages are used, unless --huge-pages=never is given or an emulator executes the model.
void note_huge_pages(exec::HugePages choice, const exec::NativeModel& model,
                     const Globals& globals);

}  // namespace llmc::cli
