#pragma once

#include <string_view>

#include "runtime/hosted/jinja/ast.h"

namespace llmc::hosted::jinja {

/// The tree of a template. TemplateError with the line for what is no template, what is not
/// supported (tags, by name) and what is nested too deeply. Names of filters, tests and functions
/// are checked too, so that a template is refused whole and not when it comes to them.
Body parse_template(std::string_view source);

/// Whether there is a filter, a test, a function, a method of that name.
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
const char* builtin_named(std::string_view name);  // nullptr: none

}  // namespace llmc::hosted::jinja
