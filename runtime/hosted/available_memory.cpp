#include "runtime/hosted/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;

/// Returns the text after `key` and blanks in the first line that begins with `key`.
std::optional<std::string> value_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", key.size());
    return begin == line.npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
}

/// Returns the number at the start of the text that value_of() returns.
std::optional<std::uint64_t> number_of(const fs::path& file, std::string_view key) {
  const auto text = value_of(file, key);
  std::uint64_t number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

/// Returns how many bytes a control group can still allocate; nullopt if it has no limit.
std::optional<std::uint64_t> available_in_group(const fs::path& group) {
  const auto limit = number_of(group / "memory.max", "");
  const auto used = number_of(group / "memory.current", "");
  if (!limit || !used) return std::nullopt;
  // Pages of files count as used, but the kernel can drop them.
  const std::uint64_t files = number_of(group / "memory.stat", "inactive_file ").value_or(0) +
                              number_of(group / "memory.stat", "active_file ").value_or(0);
  const std::uint64_t fixed = *used - std::min(*used, files);
  return *limit - std::min(*limit, fixed);
}

}  // namespace

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  auto available = number_of(root / "proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  *available *= 1024;
  const auto group = value_of(root / "proc/self/cgroup", "0::/");
  if (!group) return available;
  const fs::path top = root / "sys/fs/cgroup";
  // In a container, this may be the path of its group outside the container, whose files are
  // missing.
  for (fs::path inner = fs::path(*group).relative_path();; inner = inner.parent_path()) {
    if (const auto within = available_in_group(top / inner))
      available = std::min(*available, *within);
    if (inner.empty()) return available;
  }
}

}  // namespace llmc::hosted
