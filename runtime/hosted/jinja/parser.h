#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/hosted/jinja/ast.h"

namespace llmc::hosted::jinja {

/// Parses a template. Throws TemplateError with the line for syntax errors, unsupported tags and
/// too deep nesting. Also checks the names of filters, tests, methods and functions, and the
/// arguments of filters and tests, so that invalid templates are rejected before rendering. A
/// called function may be unknown if the template assigns or tests its name anywhere (for example
/// with `is defined`).
Body parse_template(std::string_view source);

/// Return whether there is a filter, a test, a method of any type, or a loop attribute with this
/// name.
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
bool is_method(std::string_view name);
bool is_loop_attribute(std::string_view name);
/// Returns the name of a Builtin, which lives as long as the program; nullptr if there is none.
const char* builtin_named(std::string_view name);

/// Returns why a filter cannot have these arguments; empty if it can.
std::string filter_misuse(std::string_view name, std::size_t positional,
                          std::span<const std::string_view> keywords);
/// Returns the number of arguments that a test requires.
std::size_t test_arguments(std::string_view name);

}  // namespace llmc::hosted::jinja
