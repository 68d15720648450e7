#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace llmc::hosted {

/// The folder of reference material, which need not be there: LLMC_SHARED_DIR, or ../shared.
inline std::filesystem::path shared_folder() {
  if (const char* folder = std::getenv("LLMC_SHARED_DIR")) return folder;
  return std::filesystem::path(LLMC_SOURCE_DIR).parent_path() / "shared";
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

#define LLMC_SKIP_WITHOUT(path)               \
  if (!std::filesystem::exists(path)) {       \
    GTEST_SKIP() << (path) << " is not here"; \
  }

}  // namespace llmc::hosted
