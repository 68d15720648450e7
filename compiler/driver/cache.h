#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "compiler/driver/compile.h"
#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

/// Cache of compiled models: one folder per key, created atomically. The least recently used
/// entries are removed when the cache exceeds its limit.
namespace llmc::driver {

/// Returns $XDG_CACHE_HOME/llmc or $HOME/.cache/llmc; empty if neither variable is an absolute
/// path.
std::filesystem::path cache_folder();

/// Returns whether the same model and options certainly produce the same code. Returns false for
/// compiler flags that may read other files, such as --sysroot, because those files can change, and
/// for flags that depend on this CPU, such as -march=native. Of other flags, only -O, -D, -m and -W
/// are accepted.
bool is_cacheable(const CompileOptions& options);

/// Returns a key of 32 hexadecimal digits. It depends on the content of the model and of its
/// tokenizer and chat files, the options with which `run` and similar commands compile a decoder
/// (not on weights storage or a grammar), the runtime sources, the version and build of llmc, and
/// the compiler (path, size and modification time). `options` must be cacheable (LLMC_CHECK). Fails
/// with kToolchain if no compiler is found, and with kBadInput if a file cannot be read.
Result<std::string> cache_key(const importer::ImportedModel& model, const CompileOptions& options);

/// Returns a string that identifies the build of this program, for cache keys: the size and the
/// modification time of its file.
std::string own_identity();

/// Marks an entry as most recently used.
void touch_entry(const std::filesystem::path& entry);

/// Removes incomplete entries of interrupted processes, then the least recently used entries until
/// the total size is at most `limit_bytes`. Never removes `keep`, or an entry that a FolderLock
/// protects.
void trim_cache(const std::filesystem::path& folder, std::uint64_t limit_bytes,
                const std::filesystem::path& keep);

}  // namespace llmc::driver
