#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/hosted/jinja/ast.h"

namespace llmc::hosted::jinja {

/// Parses a template. Throws TemplateError with the line for syntax errors, unsupported tags and
/// too deep nesting. Names of filters, tests, methods and functions and the arguments of filters
/// and tests are checked too, so that a template is rejected as a whole, not while rendering. A
/// function that the template checks first (`is defined`) may be missing.
Body parse_template(std::string_view source);

/// Return whether a filter, a test, a function, or a method of some type has this name.
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
bool is_method(std::string_view name);
bool is_loop_attribute(std::string_view name);
const char* builtin_named(std::string_view name);  // nullptr: there is none

/// Returns what is wrong with a filter's arguments, or an empty string.
std::string filter_misuse(std::string_view name, std::size_t positional,
                          std::span<const std::string_view> keywords);
/// Returns the number of arguments of a test.
std::size_t test_arguments(std::string_view name);

}  // namespace llmc::hosted::jinja
