#pragma once

#include <filesystem>

#include "tools/llmc/cli.h"

namespace llmc::cli {

/// What `plan` and `inspect` show of a bundle: what its plan.json holds, laid out as the plan of a
/// model; with `files` also its files. --json prints plan.json itself. kOverBudget when the arena
/// is larger than `max_ram` bytes (0: no limit). Returns the exit code.
int show_bundle(const std::filesystem::path& folder, bool files, std::uint64_t max_ram,
                const Globals& globals);

}  // namespace llmc::cli
