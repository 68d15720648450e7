#pragma once

#include <string_view>

#include "compiler/target/target.h"

namespace llmc::driver {

/// Returns the object of runtime/core/STEM.cpp for the target's architecture, which was compiled
/// with core_arguments() when llmc was built (tools/cmake/LlmcResources.cmake). Returns an empty
/// view if llmc was built with a compiler that is not a clang for the architecture, with other
/// flags, or without such a source. The caller must then compile the source.
std::string_view core_object(const target::Target& target, std::string_view stem);

}  // namespace llmc::driver
