#pragma once

#include <string_view>

#include "compiler/target/target.h"

namespace llmc::driver {

/// Returns the object of the source runtime/core/STEM.cpp for the target's architecture, which was
/// compiled when llmc was built (tools/cmake/LlmcResources.cmake), with core_arguments(). Empty if
/// there is none, so that the source has to be compiled: if llmc was built with a compiler that is
/// not a clang for the architecture, with other flags, or without such a source.
std::string_view core_object(const target::Target& target, std::string_view stem);

}  // namespace llmc::driver
