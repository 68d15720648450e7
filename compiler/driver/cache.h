#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "compiler/driver/compile.h"
#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

/// Compiled models kept between runs: one folder per key, made whole or not at all, oldest ones
/// removed when there is too much.
namespace llmc::driver {

/// $XDG_CACHE_HOME/llmc, or ~/.cache/llmc; empty when neither variable is set.
std::filesystem::path cache_folder();

/// Whether the same model and options make the same code the next time. Flags for the compiler that
/// may bring in files, say those behind a --sysroot, make something else when these change.
bool is_cacheable(const CompileOptions& options);

/// 32 hexadecimal digits over the model's contents, every option that changes the code, the sources
/// it is built from, this llmc and the compiler that will be run (path, size and time of the file).
/// `options` are cacheable. kToolchain when there is no compiler.
Result<std::string> cache_key(const importer::ImportedModel& model, const CompileOptions& options);

/// Marks an entry as used now, so that it is removed last.
void touch_entry(const std::filesystem::path& entry);

/// Removes what killed processes left half made, then the entries used longest ago until all
/// together have at most `limit_bytes`; never `keep`, and none that somebody holds a FolderLock of.
void trim_cache(const std::filesystem::path& folder, std::uint64_t limit_bytes,
                const std::filesystem::path& keep);

}  // namespace llmc::driver
