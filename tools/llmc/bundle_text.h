#pragma once

#include <filesystem>

#include "tools/llmc/cli.h"

namespace llmc::cli {

/// Prints a bundle's plan.json in the form of a model's plan, for `plan` and `inspect`. With
/// `files`, also prints the list of its files. With --json, prints the content of plan.json.
/// Returns the exit code. Fails with kBadInput if the bundle is damaged. Fails with kOverBudget,
/// after printing, if the arena exceeds `max_ram` bytes (0: no limit).
Result<int> show_bundle(const std::filesystem::path& folder, bool files, std::uint64_t max_ram,
                        const Globals& globals);

}  // namespace llmc::cli
