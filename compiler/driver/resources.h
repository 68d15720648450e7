#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The sources that every bundle holds copies of, out of the llmc binary itself
/// (tools/cmake/LlmcResources.cmake).
namespace llmc::driver {

struct Resource {
  std::string_view path;  // in the repository: "templates/llmc/kernels.h"
  std::string_view content;
};

/// Sorted by path.
const std::vector<Resource>& resources();

/// Where a bundle keeps a resource: "templates/llmc/…" and "runtime/include/llmc/…" as
/// "src/llmc/…" ("llmc/llmc.h", which applications include, at the top), "runtime/core/…" as
/// "src/core/…", "runtime/runner/…" as "src/runner/…", which no bundle holds.
std::string bundle_path(std::string_view resource_path);

/// Resources that `source` includes, directly or not, and the runtime core: what a bundle needs.
std::vector<Resource> resources_for(std::string_view source);

/// The headers among them: what a source that needs no runtime includes.
std::vector<Resource> headers_for(std::string_view source);

/// The sources of runners (runner_process.h) and all they include.
std::vector<Resource> runner_resources();

/// Changes with any byte of any resource.
std::uint64_t resources_hash();

}  // namespace llmc::driver
