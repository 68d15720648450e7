#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/exec/native.h"
#include "tools/llmc/cli.h"

/// The option for huge pages, and notes on them.
namespace llmc::cli {

/// Adds --huge-pages auto|always|never, `choice`. Sets it to kAuto, the default of these commands.
CLI::Option* add_huge_pages(CLI::App& app, exec::HugePages& choice);

/// Returns one line: "huge pages: 283.00 MiB of weights copied in 0.08 s, arena".
std::string huge_pages_text(const exec::HugePageUse& use);

/// Prints a note if --huge-pages always could not be done, and with --verbose what was done.
void note_huge_pages(exec::HugePages choice, const exec::NativeModel& model,
                     const Globals& globals);

}  // namespace llmc::cli
