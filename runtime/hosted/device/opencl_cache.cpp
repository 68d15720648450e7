#include "runtime/hosted/device/opencl_cache.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace llmc::hosted::opencl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKernelsMagic = "llmc kernels 1\n";
/// Larger files are ignored.
constexpr std::uintmax_t kMaxKernelsBytes = 64u << 20;

void append_number(std::string& text, std::uint64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  text.append(bytes, sizeof bytes);
}

/// Takes a number from the start of `text`; 0 if it is too short.
std::uint64_t take_number(std::string_view& text) {
  std::uint64_t number = 0;
  if (text.size() < sizeof number) return 0;
  std::memcpy(&number, text.data(), sizeof number);
  text.remove_prefix(sizeof number);
  return number;
}

}  // namespace

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

ProgramCache::ProgramCache(fs::path path) : path_(std::move(path)) {
  if (enabled()) read();
}

void ProgramCache::read() {
  std::error_code error;
  if (!fs::is_regular_file(path_, error) || fs::file_size(path_, error) > kMaxKernelsBytes || error)
    return;
  std::ifstream file(path_, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = content;
  if (!rest.starts_with(kKernelsMagic)) return;
  rest.remove_prefix(kKernelsMagic.size());
  const std::uint64_t sum = take_number(rest);
  if (sum != hash_of(rest)) return;
  while (rest.size() >= 16) {
    const std::uint64_t key = take_number(rest), size = take_number(rest);
    if (size > rest.size()) return;
    entries_[key] = {
        .program = std::string(rest.substr(0, size)), .used = false, .from_file = true};
    rest.remove_prefix(size);
  }
}

const std::string* ProgramCache::find(std::uint64_t key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second.used = true;
  return &found->second.program;
}

void ProgramCache::add(std::uint64_t key, std::string program) {
  entries_[key] = {.program = std::move(program), .used = true, .from_file = false};
  changed_ = true;
}

bool ProgramCache::forget() {
  bool any = false;
  for (const auto& [key, entry] : entries_) any = any || (entry.used && entry.from_file);
  entries_.clear();
  return any;
}

void ProgramCache::save() noexcept {
  if (!enabled() || !changed_) return;
  changed_ = false;
  try {
    write();
  } catch (...) {  // out of memory
    changed_ = true;
  }
}

void ProgramCache::write() const {
  std::string rest;
  for (const auto& [key, entry] : entries_) {
    if (!entry.used) continue;
    append_number(rest, key);
    append_number(rest, entry.program.size());
    rest += entry.program;
  }
  std::string head(kKernelsMagic);
  append_number(head, hash_of(rest));
  // Several processes may write at the same time.
  const fs::path temporary = path_.string() + "." + std::to_string(::getpid()) + ".tmp";
  std::error_code error;
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << head << rest << std::flush;
    if (!file) {
      file.close();
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, path_, error);
  if (error) fs::remove(temporary, error);
}

}  // namespace llmc::hosted::opencl
