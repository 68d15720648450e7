#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

/// Sources that are embedded in the llmc binary (tools/cmake/LlmcResources.cmake). A bundle
/// contains those that it needs.
namespace llmc::driver {

struct Resource {
  std::string_view path;  // relative to the repository: "templates/llmc/kernels.h"
  std::string_view content;
};

/// An entry of a table of embedded files: the name and content [begin, end) of a file. The name of
/// the last entry is nullptr.
struct EmbeddedFile {
  const char *name, *begin, *end;
};
/// Returns the files of a table, sorted by name.
std::vector<Resource> embedded_files(const EmbeddedFile* table);

/// Returns all resources, sorted by path.
const std::vector<Resource>& resources();

/// Returns the path of a resource in a bundle:
///   "llmc/…" for headers of "runtime/include/llmc/…" that applications include;
///   "src/llmc/…" for the other headers there and for "templates/llmc/…";
///   "src/core/…" for "runtime/core/…";
///   "src/runner/…" for "runtime/runner/…", which bundles do not contain.
std::string bundle_path(std::string_view resource_path);

/// Returns the resources that a bundle needs: those that `source` includes, directly or indirectly,
/// and the runtime core.
std::vector<Resource> resources_for(std::string_view source);

/// Returns the headers that `source` includes, directly or indirectly, for a source that needs no
/// runtime.
std::vector<Resource> headers_for(std::string_view source);

/// Returns the sources of runners (runner_process.h), and everything that they include.
std::vector<Resource> runner_resources();

/// Writes each resource to `folder`, to its bundle_path().
Status write_resources(const std::filesystem::path& folder, std::span<const Resource> resources);

/// Returns a hash of all resources.
std::uint64_t resources_hash();

}  // namespace llmc::driver
