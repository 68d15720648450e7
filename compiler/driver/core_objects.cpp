#include "compiler/driver/core_objects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/driver/resources.h"
#include "compiler/driver/toolchain.h"

extern "C" __attribute__((visibility("hidden")))
const llmc::driver::EmbeddedFile llmc_core_object_table[];

namespace llmc::driver {

std::string_view core_object(const target::Target& target, std::string_view stem) {
  static const std::vector<Resource> files = embedded_files(llmc_core_object_table);
  const auto file = [&](std::string_view name) {
    const std::string path = fmt::format("{}/{}", processor_of(target.triple), name);
    const auto found = std::ranges::lower_bound(files, path, {}, &Resource::path);
    return found != files.end() && found->path == path ? found->content : std::string_view();
  };
  std::vector<std::string> arguments = core_arguments(target);
  std::erase_if(arguments, [](const std::string& flag) { return flag.starts_with("-I"); });
  // Objects are not used if the flags in LlmcResources.cmake differ from core_arguments().
  if (file("arguments") != fmt::format("{}", fmt::join(arguments, " "))) return {};
  return file(stem);
}

}  // namespace llmc::driver
