// Checks, before a template is rendered, that every function, filter and test that it names exists.
#include "runtime/hosted/jinja/parser.h"
#include "runtime/hosted/jinja/parser_impl.h"

namespace llmc::hosted::jinja {

void ExpressionParser::check_call(const Expression& callee) {
  switch (callee.kind) {
    case Expression::Kind::kName:
      if (builtin_named(callee.name) == nullptr) called_.push_back({callee.name, callee.line});
      break;
    case Expression::Kind::kAttribute:
      if (!is_method(callee.name))
        tokens_.fail("the method '" + callee.name + "' is not supported");
      break;
    case Expression::Kind::kConditional:
    case Expression::Kind::kBinary:  // possibly a macro
      break;
    default:
      tokens_.fail("a call of anything except a name or a method is not supported");
  }
}

void ExpressionParser::check_filter(const Expression& filter) const {
  std::vector<std::string_view> keywords;
  for (const auto& [keyword, value] : filter.keywords) keywords.push_back(keyword);
  const std::string misuse = filter_misuse(filter.name, filter.children.size() - 1, keywords);
  if (!misuse.empty()) tokens_.fail(misuse);
  // The name of a filter that is applied to each item is usually a string argument.
  const bool attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  const std::size_t at = attribute ? 2 : 1;
  const bool tests = attribute || filter.name == "select" || filter.name == "reject";
  if ((!tests && filter.name != "map") || filter.children.size() <= at) return;
  const std::string* name = filter.children[at]->value.string();
  if (filter.children[at]->kind != Expression::Kind::kLiteral || name == nullptr) return;
  if (tests ? !is_test(*name) : !is_filter(*name))
    tokens_.fail(filter.name + ": the " + (tests ? "test" : "filter") + " '" + *name +
                 "' is not supported");
}

void ExpressionParser::check_test(const Expression& test) const {
  const std::size_t takes = test_arguments(test.name);
  if (!test.keywords.empty())
    tokens_.fail(test.name + ": the argument '" + test.keywords.front().first +
                 "' is not supported");
  if (test.children.size() - 1 != takes)
    tokens_.fail(test.name + ": takes " + std::to_string(takes) + " arguments");
}

void ExpressionParser::check_names() const {
  for (const Use& use : of_macros_)
    if (!assigned_.contains(use.name))
      throw TemplateError("the variable '" + use.name + "' of macros is not supported", use.line);
  for (const Use& use : called_)
    if (!assigned_.contains(use.name) && !asked_for_.contains(use.name))
      throw TemplateError("the function '" + use.name + "' is not supported", use.line);
}

}  // namespace llmc::hosted::jinja
