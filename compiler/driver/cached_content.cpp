#include "compiler/driver/cached_content.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <memory>

#include "compiler/driver/cache.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/mapped_file.h"

namespace llmc::driver {

namespace fs = std::filesystem;

fs::path cache_file(std::string_view key, std::string_view kind, std::string_view name) {
  const fs::path cache = cache_folder();
  if (cache.empty()) return {};
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return cache / fmt::format("{:016x}{:016x}-{}", hash.high64, hash.low64, kind) / name;
}

std::optional<CachedContent> read_content(const fs::path& file) {
  if (file.empty()) return std::nullopt;
  const auto mapped = MappedFile::open(file);
  if (!mapped.ok()) return std::nullopt;
  const std::span<const std::byte> all = (*mapped)->bytes();
  std::uint64_t checksum = 0;
  if (all.size() < sizeof checksum) return std::nullopt;
  std::memcpy(&checksum, all.data(), sizeof checksum);
  const std::span<const std::byte> bytes = all.subspan(sizeof checksum);
  if (checksum != XXH3_64bits(bytes.data(), bytes.size())) return std::nullopt;
  touch_entry(file.parent_path());
  return CachedContent{*mapped, bytes};
}

void keep_content(const fs::path& file, std::span<const std::span<const std::byte>> parts) {
  if (file.empty()) return;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  if (!state) return;
  XXH3_64bits_reset(state.get());
  for (const auto bytes : parts) XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  const std::uint64_t checksum = XXH3_64bits_digest(state.get());
  auto folder =
      AtomicDirectory::create(file.parent_path(), [](const fs::path&) { return ok_status(); });
  if (!folder.ok()) return;
  std::ofstream out(folder->path() / file.filename(), std::ios::binary);
  out.write(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  for (const auto bytes : parts)
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) return;
  const Status committed = folder->commit();
  if (committed.ok()) touch_entry(file.parent_path());
}

}  // namespace llmc::driver
