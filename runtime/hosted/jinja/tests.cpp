// Implements the tests in `value is TEST`.
#include <algorithm>

#include "runtime/hosted/jinja/functions.h"
#include "runtime/hosted/jinja/parser.h"
#include "runtime/hosted/jinja/strings.h"

namespace llmc::hosted::jinja {
namespace {

using Test = bool (*)(const Value& value, const std::vector<Value>& arguments, Budget& budget);

bool is_integer(const Value& v) {
  return v.as<std::int64_t>() != nullptr;
}

std::int64_t rest(const Value& value, std::int64_t by) {
  const auto* whole = value.as<std::int64_t>();
  if (whole == nullptr) throw TemplateError(describe(value) + " is not a whole number");
  if (by == 0) throw TemplateError("division by 0");
  return by == -1 ? 0 : *whole % by;
}

struct TestEntry {
  std::string_view name;
  std::size_t arguments;
  Test test;
};

#define LLMC_TEST(body)                                            \
  [](const Value& v, [[maybe_unused]] const std::vector<Value>& a, \
     [[maybe_unused]] Budget& budget) -> bool { return body; }

constexpr TestEntry kTests[] = {
    {"!=", 1, LLMC_TEST(!equal(v, a[0], budget))},
    {"==", 1, LLMC_TEST(equal(v, a[0], budget))},
    {"boolean", 0, LLMC_TEST(v.as<bool>() != nullptr)},
    {"callable", 0,
     LLMC_TEST(v.as<Macro>() != nullptr || v.as<Method>() != nullptr ||
               v.as<Builtin>() != nullptr)},
    {"defined", 0, LLMC_TEST(!v.is_undefined())},
    {"divisibleby", 1, LLMC_TEST(rest(v, is_integer(a[0]) ? *a[0].as<std::int64_t>() : 0) == 0)},
    {"eq", 1, LLMC_TEST(equal(v, a[0], budget))},
    {"equalto", 1, LLMC_TEST(equal(v, a[0], budget))},
    {"even", 0, LLMC_TEST(rest(v, 2) == 0)},
    {"false", 0, LLMC_TEST(v.as<bool>() != nullptr && !*v.as<bool>())},
    {"float", 0, LLMC_TEST(v.as<double>() != nullptr)},
    {"ge", 1, LLMC_TEST(compare(v, a[0], budget) >= 0)},
    {"gt", 1, LLMC_TEST(compare(v, a[0], budget) > 0)},
    {"in", 1, LLMC_TEST(contains(a[0], v, budget))},
    {"integer", 0, LLMC_TEST(is_integer(v))},
    {"iterable", 0,
     LLMC_TEST(v.string() != nullptr || v.list() != nullptr || v.dict() != nullptr ||
               v.is_undefined())},
    {"le", 1, LLMC_TEST(compare(v, a[0], budget) <= 0)},
    {"lt", 1, LLMC_TEST(compare(v, a[0], budget) < 0)},
    {"mapping", 0, LLMC_TEST(v.dict() != nullptr)},
    {"ne", 1, LLMC_TEST(!equal(v, a[0], budget))},
    {"none", 0, LLMC_TEST(v.as<None>() != nullptr)},
    {"number", 0, LLMC_TEST(is_integer(v) || v.as<double>() != nullptr || v.as<bool>() != nullptr)},
    {"odd", 0, LLMC_TEST(rest(v, 2) != 0)},
    {"sequence", 0,
     LLMC_TEST(v.string() != nullptr || v.list() != nullptr || v.dict() != nullptr ||
               v.is_undefined())},
    {"string", 0, LLMC_TEST(v.string() != nullptr)},
    {"true", 0, LLMC_TEST(v.as<bool>() != nullptr && *v.as<bool>())},
    {"undefined", 0, LLMC_TEST(v.is_undefined())},
};
#undef LLMC_TEST

const TestEntry* test_named(std::string_view name) {
  const auto it = std::ranges::find(kTests, name, &TestEntry::name);
  return it == std::end(kTests) ? nullptr : it;
}

}  // namespace

bool is_test(std::string_view name) {
  return test_named(name) != nullptr;
}

std::size_t test_arguments(std::string_view name) {
  return test_named(name)->arguments;
}

bool apply_test(const Value& value, Arguments arguments, Budget& budget) {
  budget.spend(Budget::kNode);
  const TestEntry& entry = *test_named(arguments.function());
  if (arguments.positional() != entry.arguments)
    arguments.fail("takes " + std::to_string(entry.arguments) + " arguments");
  arguments.finish(entry.arguments);
  return entry.test(value, arguments.all(), budget);
}

}  // namespace llmc::hosted::jinja
