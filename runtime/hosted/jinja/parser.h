#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/hosted/jinja/ast.h"

namespace llmc::hosted::jinja {

/// The tree of a template. TemplateError with the line for what is no template, what is not
/// supported (tags, by name) and what is nested too deeply. Names of filters, tests, methods and
/// functions and the arguments of filters and tests are checked too, so that a template is refused
/// whole and not when it comes to them. A function that the template asks for first (`is defined`)
/// may be missing.
Body parse_template(std::string_view source);

/// Whether there is a filter, a test, a function, a method of some type, of that name.
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
bool is_method(std::string_view name);
bool is_loop_attribute(std::string_view name);
const char* builtin_named(std::string_view name);  // nullptr: none

/// What is wrong with a filter's arguments, or empty.
std::string filter_misuse(std::string_view name, std::size_t positional,
                          std::span<const std::string_view> keywords);
/// How many arguments a test takes.
std::size_t test_arguments(std::string_view name);

}  // namespace llmc::hosted::jinja
