#include "compiler/driver/resources.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "compiler/support/file.h"

extern "C" __attribute__((visibility("hidden")))
const llmc::driver::EmbeddedFile llmc_resource_table[];

namespace llmc::driver {
namespace {

/// Folder of the SIMD headers, and the header there that includes the one for LLMC_TARGET.
constexpr std::string_view kSimd = "templates/llmc/simd/";
constexpr std::string_view kSimdHeader = "templates/llmc/simd/vec.h";
constexpr std::string_view kTemplates = "templates/llmc/";
constexpr std::string_view kHeaders = "runtime/include/llmc/";
constexpr std::string_view kCore = "runtime/core/";
constexpr std::string_view kRunner = "runtime/runner/";

const Resource* find_header(std::string_view include) {
  constexpr std::string_view kPrefix = "llmc/";
  if (!include.starts_with(kPrefix)) return nullptr;
  const std::string_view rest = include.substr(kPrefix.size());
  for (const Resource& resource : resources()) {
    for (const std::string_view folder : {kTemplates, kHeaders}) {
      if (resource.path.starts_with(folder) && resource.path.substr(folder.size()) == rest) {
        return &resource;
      }
    }
  }
  return nullptr;
}

/// Calls f with the path in each #include line, without the quotes or angle brackets.
template <class F>
void for_each_include(std::string_view text, F f) {
  constexpr std::string_view kInclude = "#include ";
  for (std::size_t at = 0; (at = text.find(kInclude, at)) != text.npos;) {
    at += kInclude.size();
    if (at >= text.size() || (text[at] != '"' && text[at] != '<')) continue;
    const std::size_t end = text.find_first_of("\">\n", at + 1);
    if (end != text.npos) f(text.substr(at + 1, end - at - 1));
  }
}

}  // namespace

std::vector<Resource> embedded_files(const EmbeddedFile* table) {
  std::vector<Resource> files;
  for (; table->name != nullptr; ++table)
    files.push_back({table->name, {table->begin, table->end}});
  std::ranges::sort(files, {}, &Resource::path);
  return files;
}

const std::vector<Resource>& resources() {
  static const std::vector<Resource> all = embedded_files(llmc_resource_table);
  return all;
}

std::string bundle_path(std::string_view path) {
  // Headers that applications include. The others are for the library's sources and for devices.
  for (const std::string_view header : {"llmc/beams.h", "llmc/embeddings.h", "llmc/llmc.h",
                                        "llmc/run.h", "llmc/shards.h", "llmc/speculation.h"})
    if (path == fmt::format("runtime/include/{}", header)) return std::string(header);
  for (const std::string_view folder : {kTemplates, kHeaders}) {
    if (path.starts_with(folder)) return "src/llmc/" + std::string(path.substr(folder.size()));
  }
  if (path.starts_with(kRunner)) return "src/runner/" + std::string(path.substr(kRunner.size()));
  return "src/core/" + std::string(path.substr(kCore.size()));
}

namespace {

std::vector<Resource> below(std::string_view folder) {
  std::vector<Resource> found;
  for (const Resource& resource : resources())
    if (resource.path.starts_with(folder)) found.push_back(resource);
  return found;
}

/// Returns `sources`, and everything that they and `text` include, directly or indirectly.
std::vector<Resource> with_includes(std::string_view text, const std::vector<Resource>& sources) {
  std::set<std::string_view> paths;
  std::vector<Resource> used;
  const auto add = [&](const Resource& resource) {
    if (paths.insert(resource.path).second) used.push_back(resource);
  };
  const auto add_includes = [&](std::string_view from) {
    for_each_include(from, [&](std::string_view include) {
      if (const Resource* resource = find_header(include)) add(*resource);
    });
  };
  for (const Resource& resource : sources) add(resource);
  add_includes(text);
  // `used` grows during the loop.
  for (std::size_t i = 0; i < used.size(); ++i) {
    add_includes(used[i].content);
    if (used[i].path == kSimdHeader) std::ranges::for_each(below(kSimd), add);
  }
  std::ranges::sort(used, {}, &Resource::path);
  return used;
}

}  // namespace

std::vector<Resource> resources_for(std::string_view source) {
  return with_includes(source, below(kCore));
}

std::vector<Resource> runner_resources() {
  return with_includes({}, below(kRunner));
}

std::vector<Resource> headers_for(std::string_view source) {
  return with_includes(source, {});
}

Status write_resources(const std::filesystem::path& folder, std::span<const Resource> resources) {
  for (const Resource& resource : resources) {
    const std::filesystem::path path = folder / bundle_path(resource.path);
    LLMC_RETURN_IF_ERROR(create_folders(path.parent_path()));
    LLMC_RETURN_IF_ERROR(write_file(path, resource.content));
  }
  return ok_status();
}

std::uint64_t resources_hash() {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const Resource& resource : resources()) {
    XXH3_64bits_update(state, resource.path.data(), resource.path.size() + 1);
    XXH3_64bits_update(state, resource.content.data(), resource.content.size());
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

}  // namespace llmc::driver
