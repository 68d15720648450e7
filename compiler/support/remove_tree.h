#pragma once

#include <filesystem>

namespace llmc {

/// Removes a file or a folder with all in it, following no symbolic link. Allocates nothing and
/// takes no lock, so that a signal handler may call it. True when nothing is left at `path`.
bool remove_tree(const char* path);
inline bool remove_tree(const std::filesystem::path& path) {
  return remove_tree(path.c_str());
}

}  // namespace llmc
