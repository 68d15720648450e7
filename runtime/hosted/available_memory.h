#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace llmc::hosted {

/// Returns an estimate of the bytes that this process can allocate without swapping: memory that is
/// free or holds clean pages of files, within the limits of the process's control groups (cgroup
/// v2). nullopt if unknown. `root`: folder that contains proc and sys.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace llmc::hosted
