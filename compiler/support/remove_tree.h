#pragma once

#include <filesystem>

namespace llmc {

/// Removes a file or a folder with its content, without following symbolic links. Neither allocates
/// nor locks, so that a signal handler may call it. Returns true if nothing is left at `path`.
bool remove_tree(const char* path);
inline bool remove_tree(const std::filesystem::path& path) {
  return remove_tree(path.c_str());
}

}  // namespace llmc
