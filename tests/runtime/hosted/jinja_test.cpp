// Compares templates with the output of Jinja2 (templates/expect.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/hosted/jinja/template.h"

namespace llmc::hosted::jinja {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr std::int64_t kNoon = 43'200;  // 1970-01-01 in every time zone

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}
fs::path folder() {
  return fs::path(LLMC_SOURCE_DIR) / "tests/runtime/hosted/templates";
}

/// The text, or "refused: …".
std::string render(std::string_view source, const Json& variables = Json::object()) {
  const auto parsed = Template::parse(source, "t");
  if (!parsed) return "refused: " + parsed.failure().message;
  const auto text = parsed->render(variables, kNoon);
  return text ? *text : "refused: " + text.failure().message;
}

void expect_same(const Json& expected, const std::string& text, const std::string& what) {
  if (expected.is_null()) {
    EXPECT_THAT(text, ::testing::StartsWith("refused: ")) << what;
  } else {
    EXPECT_EQ(text, expected.get<std::string>()) << what;
  }
}

TEST(Jinja, ExpressionsAndWhitespaceAreThoseOfJinja2) {
  const Json file = Json::parse(read(folder() / "expressions.json"));
  ASSERT_GT(file["cases"].size(), 250u);
  for (const Json& c : file["cases"]) {
    const auto source = c["template"].get<std::string>();
    expect_same(c["expected"], render(source, file["variables"]), source);
  }
}

TEST(Jinja, ChatTemplatesOfRealModelsAreThoseOfJinja2) {
  const Json expected = Json::parse(read(folder() / "expected.json"));
  ASSERT_GE(expected.size(), 15u);
  for (const auto& [name, cases] : expected.items()) {
    const std::string source = read(folder() / (name + ".jinja"));
    for (const auto& [title, c] : cases.items()) {
      const Json variables{{"messages", c["messages"]}, {"add_generation_prompt", c["open"]},
                           {"bos_token", "<s>"},        {"eos_token", "</s>"},
                           {"tools", nullptr},          {"documents", nullptr}};
      expect_same(c["text"], render(source, variables), name + ", " + title);
    }
  }
}

TEST(Jinja, WhatIsNotSupportedIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{{ x | escape }}", "t, line 2: the filter 'escape' is not supported"},
      {"\n\n{{ x is callable_thing }}", "t, line 3: the test 'callable_thing' is not supported"},
      {"{% include 'x' %}", "t, line 1: the block 'include' is not supported"},
      {"{% for a in b recursive %}{% endfor %}", "recursive loops are not supported"},
      {"{{ lipsum() }}", "the function 'lipsum' is not supported"},
      {"{{ 'a'.encode() }}", "the method 'encode' is not supported"},
      {"{{ [1].append(2) }}", "the method 'append' is not supported"},
      {"{{ {'a': 1}.update({}) }}", "the method 'update' is not supported"},
      {"{{ 'a'.get('b') }}", "the method 'get' of strings is not supported"},
      {"{% for a in [1] %}\n{{ loop.changed(1) }}{% endfor %}", "line 2: loop.changed"},
      {"{{ loop.depth }}", "loop.depth is not supported"},
      {"{{ loop.first }}", "'first' is looked for in 'loop', which is undefined"},
      {"{% for a in [1] %}{{ loop.depth }}{% endfor %}", "loop.depth is not supported"},
      {"{{ f(*args) }}", "(*, **) are not supported"},
      {"{{ 'é' | upper }}", "upper of text that is not ASCII is not supported"},
      {"{{ '%d' % 3 }}", "formatting strings with % is not supported"},
      {"{{ [1] | tojson(allow_nan=true) }}", "the argument 'allow_nan' is not supported"},
      {"{{ raise_exception('only\nthis') }}", "the template refuses the conversation: only\nthis"},
      {"{% if x %}", "the template ends where endif is expected"},
      {"{{ \"\\N{DASH}\" }}", "characters by name"},
      {"{{ 1 }", "a } that closes nothing"},
      {"{{ 1 ! }}", "the character '!' has no meaning"},
      {"{% set loop = 1 %}", "'loop' cannot be set"},
      {"{% break %}", "'break' outside of a loop"},
      {"{{ 99999999999999999999 }}", "too large"},
      {"{{ 9223372036854775807 + 1 }}", "too large"},
      {"\xFF", "not UTF-8"},
  };
  for (const auto& [source, message] : cases)
    EXPECT_THAT(render(source), HasSubstr(message)) << source;
}

TEST(Jinja, WhatIsNotSupportedIsRefusedBeforeAnythingIsRun) {
  // Nothing of this is ever reached.
  const std::pair<const char*, const char*> cases[] = {
      {"{{ x.encode() }}", "the method 'encode' is not supported"},
      {"{{ x['items']() }}", "a call of anything except a name or a method"},
      {"{{ x | map('escape') }}", "map: the filter 'escape' is not supported"},
      {"{{ x | select('sameas', 1) }}", "select: the test 'sameas' is not supported"},
      {"{{ x | rejectattr('a', 'sameas', 1) }}", "rejectattr: the test 'sameas' is not supported"},
      {"{{ x | dictsort(by='value') }}", "dictsort: the argument 'by' is not supported"},
      {"{{ x | upper(1) }}", "upper: too many arguments"},
      {"{{ x is odd(1) }}", "odd: takes 0 arguments"},
      {"{{ x is eq }}", "eq: takes 1 arguments"},
      {"{{ cycler('a') }}", "the function 'cycler' is not supported"},
      {"{% for a in x %}{{ loop(a) }}{% endfor %}", "the function 'loop' is not supported"},
      {"{% for a in x %}{{ loop.cycle('b') }}{% endfor %}", "loop.cycle is not supported"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}", "the variable 'varargs' of macros"},
      {"{% macro m() %}\n{{ caller() }}{% endmacro %}", "line 2: the variable 'caller' of macros"},
  };
  for (const auto& [source, message] : cases) {
    const auto parsed =
        Template::parse("{% if false %}" + std::string(source) + "{% endif %}", "t");
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_THAT(parsed.failure().message, HasSubstr(message)) << source;
    EXPECT_THAT(parsed.failure().message, HasSubstr(", line ")) << source;
  }
  // A function that the template looks for itself may be missing.
  EXPECT_EQ(render("{{ later() if later is defined else 'no' }}"), "no");
  EXPECT_EQ(
      render("{% macro m() %}{{ varargs | length }}{% endmacro %}{% set varargs = [1] %}{{ m() }}"),
      "1");
}

TEST(Jinja, NumbersThatNoDoubleHoldsAreNothingOrTooLarge) {
  const std::string zeros(400, '0');
  // The exponent alone does not tell which.
  for (const std::string& tiny : {"0." + zeros + "1", "0." + zeros + "1e5", std::string("1e-400"),
                                  "." + zeros + "1E-1", "-0." + zeros + "1"})
    EXPECT_EQ(render("{{ '" + tiny + "' | int(7) }}"), "0") << tiny;
  // Python's float() makes these infinite, which int() takes for none.
  for (const std::string& large : {"1" + zeros + "e-1", "1" + zeros + ".5", std::string("1e400"),
                                   std::string("1e99999999999999999999")})
    EXPECT_EQ(render("{{ '" + large + "' | int(7) }}"), "7") << large;
}

TEST(Jinja, MarksOfWhatIsLearntWriteTheirText) {
  EXPECT_EQ(render("{% generation %}a{{ 1 }}{% endgeneration %}b"), "a1b");
}

TEST(Jinja, TheTimeIsTheCallers) {
  const auto parsed = Template::parse("{{ strftime_now('%Y-%m-%d') }}{{ strftime_now('') }}", "t");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed->render(Json::object(), kNoon), "1970-01-01");
  EXPECT_EQ(*parsed->render(Json::object(), kNoon + 86'400), "1970-01-02");
}

// Templates come out of models: none may take the program with it.

TEST(JinjaHostile, DeepNestingIsRefused) {
  const auto repeated = [](const std::string& text, int n) {
    std::string result;
    for (int i = 0; i < n; ++i) result += text;
    return result;
  };
  constexpr int kDeep = 20'000;
  const std::string sources[] = {
      "{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}",
      "{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}",
      "{{ " + repeated("not ", kDeep) + "1 }}",
      "{{ " + repeated("-", kDeep) + "1 }}",
      "{{ 1" + repeated(" + 1", kDeep) + " }}",
      "{{ x" + repeated(".a", kDeep) + " }}",
      "{{ x" + repeated("|trim", kDeep) + " }}",
      "{{ x" + repeated(" is defined", kDeep) + " }}",
      "{{ x" + repeated("[0]", kDeep) + " }}",
      "{{ x" + repeated(" if x", kDeep) + " }}",
      "{{ 1" + repeated(" if x else 1", kDeep) + " }}",
      repeated("{% if x %}", kDeep) + repeated("{% endif %}", kDeep),
      repeated("{% for x in y %}", kDeep) + repeated("{% endfor %}", kDeep),
      repeated("{% macro m() %}", kDeep) + repeated("{% endmacro %}", kDeep),
  };
  for (const std::string& source : sources)
    EXPECT_THAT(render(source), HasSubstr("nested too deeply")) << source.substr(0, 20);
  // Inside of the bounds all is well.
  EXPECT_EQ(
      render("{{ " + repeated("(", 12) + "1" + repeated(")", 12) + repeated(" ~ 1", 60) + " }}"),
      repeated("1", 61));
}

TEST(Jinja, JoinsWhatCanBeGoneThrough) {
  EXPECT_EQ(render("{{ 'xyz' | join('-') }}"), "x-y-z");
  EXPECT_EQ(render("{{ {'a': 1, 'b': 2} | join(', ') }}"), "a, b");
  EXPECT_EQ(render("{{ nothing | join('-') }}"), "");
}

TEST(JinjaHostile, RunawayTemplatesAreStopped) {
  for (const char* source : {
           "{% for i in range(9999) %}{{ ('a' * 400000 ~ 'b') in ('a' * 800000) }}{% endfor %}",
           "{% for i in range(9999) %}{{ ('a' * 800000).find('a' * 400000 ~ 'b') }}{% endfor %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro m(x) %}{% for i in [1] %}{{ m(x ~ x) }}{% endfor %}{% endmacro %}{{ m('a') }}",
           "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
           "{{ 'a' * 99999999999 }}",
           "{{ [1] * 99999999999 }}",
           "{{ 'a' * 9223372036854775807 }}",
           "{{ 'aaaaaaaa' * 9223372036854775807 }}",
           "{{ range(100001) }}",
           "{{ 10 ** 1000000000000 }}",
           "{{ 'x' | indent(100000000) }}",
           "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
           "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
           "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}"
           "{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
           "{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[[]]) %}{% for i in range(30) %}{% set ns.x = [ns.x, ns.x] %}"
           "{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[[]]) %}{% for i in range(30) %}{% set ns.x = [ns.x, ns.x] %}"
           "{% endfor %}{{ ns.x | tojson }}",
           "{% set ns = namespace(x=[[]]) %}{% for i in range(30) %}{% set ns.x = [ns.x, ns.x] %}"
           "{% endfor %}{{ ns.x == ns.x }}",
           "{% set ns = namespace(x=1) %}{% set ns.x = ns %}",
           "{% set ns = namespace(x=1) %}{% set ns.x = [ns] %}",
           "{% set ns = namespace() %}{% set ns.m = ns.m %}{% set x = namespace(y=ns) %}",
           "{% macro m() %}{% endmacro %}{{ [m] }}",
           "{{ m | default([range]) }}",
       }) {
    EXPECT_THAT(render(source), ::testing::StartsWith("refused: ")) << source;
  }
}

TEST(JinjaHostile, EveryCutOfATemplateIsRefusedOrRendered) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  for (const char* name : {"qwen-3.jinja", "mistral-v0.3.jinja"}) {
    const std::string source = read(folder() / name);
    ASSERT_FALSE(source.empty());
    // A template is refused with a message, or renders; both happen.
    constexpr std::string_view kRefused = "refused: ";
    int refused = 0, rendered = 0;
    const auto count = [&](const std::string& text) {
      if (!text.starts_with(kRefused)) return ++rendered;
      EXPECT_GT(text.size(), kRefused.size());
      return ++refused;
    };
    for (std::size_t cut = 0; cut < source.size(); cut += 31) {
      count(render(source.substr(0, cut), {{"messages", messages}}));
      std::string damaged = source;
      damaged[cut] = static_cast<char>("{}%()[]'\"|.-"[cut % 12]);
      count(render(damaged, {{"messages", messages}}));
    }
    EXPECT_GT(refused, 0) << name;
    EXPECT_GT(rendered, 0) << name;
  }
}

}  // namespace
}  // namespace llmc::hosted::jinja
