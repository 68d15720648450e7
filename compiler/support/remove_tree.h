#pragma once

#include <filesystem>

namespace llmc {

/// Removes a file, or a folder with its content, without following symbolic links. Folders that are
/// nested more than 16 deep, counting `path`, are not removed, nor are the folders that contain
/// them. Returns true if nothing is left at `path`. The first overload neither allocates nor locks,
/// so a signal handler may call it.
bool remove_tree(const char* path);
inline bool remove_tree(const std::filesystem::path& path) {
  return remove_tree(path.c_str());
}

}  // namespace llmc
