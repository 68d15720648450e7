#include <fmt/format.h>

#include "compiler/emit/source.h"

namespace llmc::emit {

std::string cmake_file(std::string_view name) {
  return fmt::format(
      "# include({0}.cmake), then target_link_libraries(app {0}::{0})\n"
      "if(NOT TARGET {0}::{0})\n"
      "  add_library({0}::{0} STATIC IMPORTED)\n"
      "  set_target_properties({0}::{0} PROPERTIES\n"
      "    IMPORTED_LOCATION \"${{CMAKE_CURRENT_LIST_DIR}}/lib{0}.a\"\n"
      "    INTERFACE_INCLUDE_DIRECTORIES \"${{CMAKE_CURRENT_LIST_DIR}}\")\n"
      "endif()\n",
      name);
}

std::string pkg_config_file(std::string_view name, std::string_view what,
                            const target::Target& target) {
  return fmt::format(
      "prefix=${{pcfiledir}}\n\n"
      "Name: {0}\n"
      "Description: {3} compiled for {1} by llmc\n"
      "Version: {2}\n"
      "Cflags: -I${{prefix}}\n"
      "Libs: -L${{prefix}} -l{0}\n",
      name, target.name, kCompilerVersion, what);
}

}  // namespace llmc::emit
