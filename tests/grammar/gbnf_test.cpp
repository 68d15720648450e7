#include <gmock/gmock.h>

#include "tests/grammar/grammar_fixture.h"

namespace llmc::hosted::grammar::testing {
namespace {

using ::testing::HasSubstr;

bool gbnf_matches(std::string_view gbnf, std::string_view text) {
  const Grammar grammar = parsed(gbnf);
  Machine machine(grammar, vocabulary_with({}));
  const bool result = machine.matches(text);
  EXPECT_EQ(result, belongs(grammar, text)) << gbnf << " with " << text;
  return result;
}

TEST(Gbnf, ReadsWhatPeopleWrite) {
  constexpr std::string_view kJson = R"(# as in llama.cpp's grammars/json.gbnf
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)";
  EXPECT_TRUE(gbnf_matches(kJson, R"({"a":[1,-2.5e3,{"b":"x\né"}],"c": null})"));
  EXPECT_TRUE(gbnf_matches(kJson, "{}"));
  EXPECT_TRUE(gbnf_matches(kJson, R"({"é€😀":true})"));
  EXPECT_FALSE(gbnf_matches(kJson, R"({"a":01})"));
  EXPECT_FALSE(gbnf_matches(kJson, R"({"a":[1,]})"));
  EXPECT_FALSE(gbnf_matches(kJson, R"({"a":1)"));
  EXPECT_FALSE(gbnf_matches(kJson, R"([1])"));
}

TEST(Gbnf, TakesEveryPart) {
  EXPECT_TRUE(gbnf_matches("root ::= \"a\" \"b\"", "ab"));
  EXPECT_FALSE(gbnf_matches("root ::= \"a\" \"b\"", "a"));
  EXPECT_TRUE(gbnf_matches("root ::= \"x\" |\n  \"y\"\n", "y"));
  EXPECT_TRUE(gbnf_matches("root ::= \"x\"\n   | \"y\" # lines that begin with |\n", "y"));
  EXPECT_TRUE(gbnf_matches("root ::= a-1 a_2\na-1 ::= \"1\"\na_2 ::= \"2\"", "12"));
  EXPECT_TRUE(gbnf_matches("root ::= \"a\"* \"b\"+ \"c\"?", "bb"));
  EXPECT_FALSE(gbnf_matches("root ::= \"a\"* \"b\"+ \"c\"?", "aacc"));
  EXPECT_TRUE(gbnf_matches("root ::= (\"a\" | \"b\"){2,3}", "aba"));
  EXPECT_FALSE(gbnf_matches("root ::= (\"a\" | \"b\"){2,3}", "abab"));
  EXPECT_FALSE(gbnf_matches("root ::= (\"a\" | \"b\"){2,3}", "a"));
  EXPECT_TRUE(gbnf_matches("root ::= \"ab\"{2}", "abab"));
  EXPECT_TRUE(gbnf_matches("root ::= \"a\"{2,}", "aaaaa"));
  EXPECT_FALSE(gbnf_matches("root ::= \"a\"{2,}", "a"));
  EXPECT_TRUE(gbnf_matches("root ::= \"a\"{0}", ""));
  EXPECT_TRUE(gbnf_matches("root ::= | \"a\"", ""));
  EXPECT_TRUE(gbnf_matches("root ::= . .", "\xE2\x82\xAC\n"));
  EXPECT_TRUE(gbnf_matches("root ::= [a-cx-]+", "b-x"));
  EXPECT_TRUE(gbnf_matches("root ::= [\\]\\[\\-\\\\]+", "[]-\\"));
  EXPECT_TRUE(gbnf_matches("root ::= \"\\x41\\u20AC\\U0001F600\\n\\t\\r\\\"\"", "A€😀\n\t\r\""));
  EXPECT_TRUE(gbnf_matches("root ::= [^a-z]", "é"));
  EXPECT_FALSE(gbnf_matches("root ::= [^a-z]", "q"));
  EXPECT_TRUE(gbnf_matches("root ::= [à-ü€]+", "é€"));
  EXPECT_FALSE(gbnf_matches("root ::= .", "\xFF"));          // not UTF-8
  EXPECT_FALSE(gbnf_matches("root ::= .", "\xED\xA0\x80"));  // a lone surrogate
  EXPECT_FALSE(gbnf_matches("root ::= .", "\xC0\x80"));      // overlong
}

std::string error_of(std::string_view gbnf, bool unsupported = false) {
  const auto grammar = parse_gbnf(gbnf);
  if (grammar.ok()) {
    const auto tables = build_tables(*grammar, vocabulary_with({}));
    if (tables.ok()) return "no error";
    EXPECT_EQ(tables.failure().unsupported, unsupported);
    return tables.failure().message;
  }
  EXPECT_EQ(grammar.failure().unsupported, unsupported);
  return grammar.failure().message;
}

TEST(Gbnf, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_of(""), HasSubstr("start rule 'root'"));
  EXPECT_THAT(error_of("a ::= \"x\""), HasSubstr("start rule 'root'"));
  EXPECT_THAT(error_of("root ::= \"a\"\nroot ::= \"b\""),
              HasSubstr("line 2, column 1: rule 'root' is def"));
  EXPECT_THAT(error_of("root ::= \"a\"\n\n\nb ::= c"),
              HasSubstr("line 4, column 7: rule 'c' is used"));
  EXPECT_THAT(error_of("root = \"a\""), HasSubstr("'::=' must follow"));
  EXPECT_THAT(error_of("root ::= \"a"), HasSubstr("'\"' is missing"));
  EXPECT_THAT(error_of("root ::= [a"), HasSubstr("']' is missing"));
  EXPECT_THAT(error_of("root ::= [z-a]"), HasSubstr("backwards"));
  EXPECT_THAT(error_of("root ::= \"\u00e4\u00e4\" ?? \"b\""), HasSubstr("line 1, column 16"));
  EXPECT_THAT(error_of("root ::= []"), HasSubstr("without any character"));
  EXPECT_THAT(error_of("root ::= (\"a\""), HasSubstr("')' is missing"));
  EXPECT_THAT(error_of("root ::= (\"a\"\nb ::= \"c\""), HasSubstr("')' is missing"));
  EXPECT_THAT(error_of("root ::= \"a\")"), HasSubstr("')' does not belong"));
  EXPECT_THAT(error_of("root ::= *"), HasSubstr("nothing before '*'"));
  EXPECT_THAT(error_of("root ::= \"a\"**"), HasSubstr("repetition of a repetition"));
  EXPECT_THAT(error_of("root ::= \"a\"{3,2}"), HasSubstr("counts backwards"));
  EXPECT_THAT(error_of("root ::= \"a\"{x}"), HasSubstr("expected a number"));
  EXPECT_THAT(error_of("root ::= \"\\q\""), HasSubstr("unknown escape \\q"));
  EXPECT_THAT(error_of("root ::= \"\\uD800\""), HasSubstr("not a character"));
  EXPECT_THAT(error_of("root ::= \"\\u12\""), HasSubstr("4 hexadecimal digits"));
  EXPECT_THAT(error_of("root ::= \"\xFF\""), HasSubstr("invalid UTF-8"));
  EXPECT_THAT(error_of("root ::= <think>", true), HasSubstr("tokens as parts"));
  EXPECT_THAT(error_of("root ::= \"a\"{1000000}", true), HasSubstr("more than"));
  EXPECT_THAT(error_of(std::string("root ::= ") + std::string(5000, '('), true),
              HasSubstr("in one another"));
}

TEST(Gbnf, RefusesLeftRecursion) {
  EXPECT_THAT(error_of("root ::= expr\nexpr ::= expr \"+\" \"1\" | \"1\""),
              HasSubstr("left recursion: expr -> expr"));
  EXPECT_THAT(error_of("root ::= a\na ::= b \"x\" | \"1\"\nb ::= c\nc ::= \"\"? a"),
              HasSubstr("left recursion: "));
  EXPECT_THAT(error_of("root ::= \"a\"* root \"b\" | \"c\""), HasSubstr("left recursion"));
}

TEST(Gbnf, RefusesWhatNeverEnds) {
  EXPECT_THAT(error_of("root ::= \"a\" root"), HasSubstr("rule 'root' can never end"));
  EXPECT_THAT(error_of("root ::= \"a\" | b\nb ::= \"x\" c\nc ::= \"y\" b"),
              HasSubstr("can never end"));
}

TEST(Gbnf, RefusesWhatIsTooLarge) {
  EXPECT_THAT(error_of("root ::= (\"a\"{1000}){1000}", true), HasSubstr("too large"));
  // The automaton needs 2^n states to know the character n places before.
  EXPECT_THAT(error_of("root ::= [ab]* \"a\" [ab]{24}", true), HasSubstr("too large"));
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
