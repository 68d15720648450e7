#pragma once

#include <string_view>

#include "compiler/target/target.h"

namespace llmc::driver {

/// Returns the object of the source runtime/core/STEM.cpp for the target's architecture, which was
/// compiled when llmc was built (tools/cmake/LlmcResources.cmake). It is what the compiler makes
/// with core_arguments(). Empty if llmc was built with a compiler that does not know the
/// architecture: then the source has to be compiled.
std::string_view core_object(const target::Target& target, std::string_view stem);

}  // namespace llmc::driver
