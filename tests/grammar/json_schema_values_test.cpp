#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/grammar/grammar_fixture.h"

/// Bounds of numbers, formats of dates and times, tuples, long strings.
namespace llmc::hosted::grammar::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string bounded(std::string_view type, std::string_view bounds) {
  return R"({"type": ")" + std::string(type) + R"(", )" + std::string(bounds) + "}";
}

/// Integers near all powers of ten, as JSON libraries write them.
std::vector<std::int64_t> integers_to_try(std::int64_t lower, std::int64_t upper) {
  std::vector<std::int64_t> values;
  for (const std::int64_t center : {std::int64_t{0}, lower, upper})
    for (std::int64_t d = -12; d <= 12; ++d) values.push_back(center + d);
  for (std::int64_t power = 10; power < 1'000'000'000'000'000; power *= 10)
    for (std::int64_t d = -2; d <= 2; ++d) {
      values.push_back(power + d);
      values.push_back(-power + d);
      values.push_back(5 * power + d);
    }
  return values;
}

TEST(JsonSchemaValues, IntegersWithinBounds) {
  struct Case {
    std::string bounds;
    std::int64_t lower, upper;
  };
  constexpr std::int64_t kMaxValue = 9'999'999'999'999'999;
  const Case cases[] = {
      {R"("minimum": -5, "maximum": 123456)", -5, 123456},
      {R"("minimum": 0, "maximum": 255)", 0, 255},
      {R"("minimum": 7, "maximum": 7)", 7, 7},
      {R"("minimum": 0, "maximum": 0)", 0, 0},
      {R"("minimum": -120, "maximum": -98)", -120, -98},
      {R"("exclusiveMinimum": -1, "exclusiveMaximum": 1001)", 0, 1000},
      {R"("minimum": 18)", 18, kMaxValue},
      {R"("maximum": 18)", -kMaxValue, 18},
      {R"("exclusiveMinimum": 0)", 1, kMaxValue},
      {R"("exclusiveMaximum": 0)", -kMaxValue, -1},
      {R"("minimum": 0.5, "maximum": 3.999)", 1, 3},
      {R"("minimum": -3.5, "maximum": -0.5)", -3, -1},
      {R"("minimum": 1e3, "exclusiveMaximum": 2.5e3)", 1000, 2499},
      {R"("minimum": 4, "exclusiveMinimum": 4, "maximum": 9, "exclusiveMaximum": 99)", 5, 9},
      {R"("minimum": -99999999999999999, "maximum": 99999999999999999)", -99999999999999999,
       99999999999999999},
      {R"("minimum": 0, "maximum": 18446744073709551615)", 0, 999'999'999'999'999'999},
      {R"("minimum": -1e300, "maximum": 42)", -999'999'999'999'999'999, 42},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.bounds);
    std::vector<std::string> tried, valid;
    for (const std::int64_t value : integers_to_try(one.lower, one.upper)) {
      tried.push_back(std::to_string(value));
      if (value >= one.lower && value <= one.upper) valid.push_back(tried.back());
    }
    EXPECT_EQ(schema_texts(bounded("integer", one.bounds), tried), valid);
  }
}

TEST(JsonSchemaValues, IntegersHaveOneSpelling) {
  const std::string schema = R"({"type": "integer", "minimum": -100, "maximum": 100})";
  EXPECT_THAT(schema_texts(schema, {"-0", "00", "007", "-07", "+7", "7.0", "1e2", "1E1", "", "-",
                                    "0", "7", "-7", "100", "-100"}),
              ::testing::ElementsAre("0", "7", "-7", "100", "-100"));
}

TEST(JsonSchemaValues, NumbersWithinBounds) {
  struct Case {
    std::string bounds;
    double lower, upper;
    bool lower_is_out = false, upper_is_out = false;
  };
  const Case cases[] = {
      {R"("minimum": 0, "maximum": 1)", 0, 1},
      {R"("exclusiveMinimum": 0, "exclusiveMaximum": 1)", 0, 1, true, true},
      {R"("minimum": 0.25, "maximum": 0.375)", 0.25, 0.375},
      {R"("minimum": -1.5, "maximum": 12.75)", -1.5, 12.75},
      {R"("exclusiveMinimum": -1.5, "maximum": -0.5)", -1.5, -0.5, true},
      {R"("minimum": 99.5, "exclusiveMaximum": 1000)", 99.5, 1000, false, true},
      {R"("minimum": 3)", 3, 1e15},
      {R"("exclusiveMaximum": 0)", -1e15, 0, false, true},
      {R"("exclusiveMinimum": 0)", 0, 1e15, true},
      {R"("minimum": 1e-7, "maximum": 1e300)", 1e-7, 1e15},
      {R"("minimum": 5, "maximum": 5)", 5, 5},
      {R"("minimum": 0, "maximum": 0)", 0, 0},
  };
  std::vector<std::string> tried;
  for (const char* const whole : {"0", "1", "2", "3", "4", "5", "6", "9", "10", "12", "13", "98",
                                  "99", "100", "999", "1000", "1001", "999999999999999"})
    for (const char* const fraction :
         {"",     ".0",       ".00000000", ".0000001", ".00000009",   ".1",   ".2",
          ".25",  ".249",     ".250",      ".2501",    ".37",         ".375", ".3750000001",
          ".4",   ".49999",   ".5",        ".50",      ".500001",     ".7",   ".75",
          ".750", ".7500001", ".8",        ".9",       ".99999999999"})
      for (const char* const sign : {"", "-"}) {
        const std::string text = std::string(sign) + whole + fraction;
        if (sign[0] != '-' || std::stod(text) != 0) tried.push_back(text);
      }
  for (const Case& one : cases) {
    SCOPED_TRACE(one.bounds);
    std::vector<std::string> valid;
    for (const std::string& text : tried) {
      const double value = std::stod(text);
      if ((one.lower_is_out ? value > one.lower : value >= one.lower) &&
          (one.upper_is_out ? value < one.upper : value <= one.upper))
        valid.push_back(text);
    }
    EXPECT_EQ(schema_texts(bounded("number", one.bounds), tried), valid);
  }
  EXPECT_FALSE(schema_matches(R"({"type": "number", "minimum": 0})", "1e3"));
  // As doubles these equal the bound.
  EXPECT_FALSE(schema_matches(R"({"exclusiveMinimum": 5})", "5.0000000000000001"));
  EXPECT_FALSE(schema_matches(R"({"exclusiveMaximum": 5})", "4.9999999999999999"));
}

TEST(JsonSchemaValues, RandomBoundsHoldForEveryGeneratedNumber) {
  std::mt19937 random(19);
  const auto drawn = [&] {
    const double size = std::pow(10.0, static_cast<double>(random() % 7) - 2);
    return std::round((static_cast<double>(random() % 2001) - 1000) * size) / 100;
  };
  for (int i = 0; i < 12; ++i) {
    const double a = drawn(), b = drawn();
    const bool whole = i % 2 == 0, open = i % 3 == 0;
    const double lower = std::min(a, b), upper = std::max(a, b) + 2;
    const json schema = {{"type", whole ? "integer" : "number"},
                         {open ? "exclusiveMinimum" : "minimum", lower},
                         {open ? "exclusiveMaximum" : "maximum", upper}};
    SCOPED_TRACE(schema.dump());
    Machine machine(parsed_schema(schema.dump()), vocabulary_with({"00", "99", ".5", "-1"}));
    for (int k = 0; k < 60; ++k) {
      const std::string text = machine.generate(random, 40);
      if (!machine.may_end()) continue;
      const json value = json::parse(text, nullptr, false);
      ASSERT_TRUE(whole ? value.is_number_integer() : value.is_number()) << text;
      EXPECT_TRUE(open ? value.get<double>() > lower : value.get<double>() >= lower) << text;
      EXPECT_TRUE(open ? value.get<double>() < upper : value.get<double>() <= upper) << text;
    }
  }
}

TEST(JsonSchemaValues, BoundsGoWithOtherKeywords) {
  constexpr std::string_view kSchema = R"({"type": ["integer", "string", "null"], "minimum": 1,
      "maximum": 3, "maxLength": 1})";
  EXPECT_THAT(schema_texts(kSchema, {"0", "1", "3", "4", "\"a\"", "\"ab\"", "null", "1.5"}),
              ::testing::ElementsAre("1", "3", "\"a\"", "null"));
  EXPECT_THAT(schema_texts(R"({"minimum": 2.5, "maximum": 3})", {"2", "2.4", "2.5", "3", "3.1"}),
              ::testing::ElementsAre("2.5", "3"));
  constexpr std::string_view kObject = R"({"type": "object", "required": ["age", "on"],
      "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 130},
                     "on": {"type": "string", "format": "date"}}})";
  EXPECT_TRUE(schema_matches(kObject, R"({"age":130,"on":"2024-02-29"})"));
  EXPECT_FALSE(schema_matches(kObject, R"({"age":131,"on":"2024-02-29"})"));
  EXPECT_FALSE(schema_matches(kObject, R"({"age":13,"on":"2023-02-29"})"));
}

TEST(JsonSchemaValues, BoundsThatCannotBeAreNamed) {
  const auto bad = [](std::string_view schema) { return schema_error(schema, false); };
  EXPECT_THAT(bad(R"({"type": "integer", "minimum": 5, "maximum": 3})"),
              HasSubstr("#: 'minimum' 5 and 'maximum' 3 leave no integer"));
  EXPECT_THAT(bad(R"({"properties": {"a": {"minimum": 5, "exclusiveMaximum": 5}}})"),
              HasSubstr("#/properties/a: 'minimum' 5 and 'exclusiveMaximum' 5 leave no number"));
  EXPECT_THAT(bad(R"({"minimum": 1, "exclusiveMinimum": 9, "maximum": 2})"),
              HasSubstr("'exclusiveMinimum' 9 and 'maximum' 2"));
  EXPECT_THAT(bad(R"({"type": "integer", "minimum": 0.2, "maximum": 0.8})"),
              HasSubstr("no integer is between"));
  EXPECT_THAT(bad(R"({"type": "integer", "minimum": "5"})"),
              HasSubstr("'minimum' must be a number"));
  EXPECT_THAT(bad(R"({"type": "number", "minimum": 0, "exclusiveMinimum": true})"),
              HasSubstr("drafts before 6"));
  EXPECT_THAT(schema_error(R"({"type": "integer", "minimum": 1e18})"),
              HasSubstr("a bound of integers of more than 18 digits"));
  EXPECT_THAT(schema_error(R"({"type": "number", "maximum": -1e300})"),
              HasSubstr("a bound of numbers of more than 15 digits"));
  EXPECT_THAT(schema_error(R"({"type": "number", "minimum": 0.1234567890123456})"),
              HasSubstr("more than 15 digits"));
  EXPECT_THAT(schema_error(R"({"type": "string", "minimum": 1})"), HasSubstr("'minimum' is not"));
  EXPECT_THAT(schema_error(R"({"enum": [1, 2], "minimum": 2})"),
              HasSubstr("'minimum' together with"));
}

TEST(JsonSchemaValues, DatesExist) {
  std::vector<std::string> tried, valid;
  for (const int year : {0, 1, 4, 96, 100, 400, 1900, 1996, 1999, 2000, 2023, 2024, 2100, 9999})
    for (int month = 0; month <= 13; ++month)
      for (const int day : {0, 1, 10, 28, 29, 30, 31, 32}) {
        const auto two = [](int n) { return (n < 10 ? "0" : "") + std::to_string(n); };
        std::string digits = std::to_string(year);
        digits.insert(0, 4 - digits.size(), '0');
        tried.push_back("\"" + digits + "-" + two(month) + "-" + two(day) + "\"");
        const std::chrono::year_month_day date{std::chrono::year(year),
                                               std::chrono::month(static_cast<unsigned>(month)),
                                               std::chrono::day(static_cast<unsigned>(day))};
        if (year > 0 && date.ok()) valid.push_back(tried.back());
      }
  EXPECT_EQ(schema_texts(R"({"type": "string", "format": "date"})", tried), valid);
  EXPECT_TRUE(schema_texts(R"({"format": "date"})",
                           {"\"2024-1-01\"", "\"24-01-01\"", "\"2024-01-01T\"", "2024-01-01",
                            "\"2024/01/01\"", "\"2024-01-01 \"", "\"02024-01-01\""})
                  .empty());
}

TEST(JsonSchemaValues, TimesExist) {
  const std::vector<std::string> good = {"00:00:00Z",           "23:59:59Z",      "12:30:00.5Z",
                                         "12:30:00.123456789Z", "09:08:07+02:00", "19:08:07-23:59"};
  const std::vector<std::string> wrong = {"24:00:00Z", "12:60:00Z",      "12:30:60Z",
                                          "12:30Z",    "12:30:00",       "12:30:00.Z",
                                          "12:30:00z", "12:30:00+24:00", "12:30:00+02:60",
                                          "1:30:00Z",  "12:30:00+0200",  "12:30:00.1234567890Z"};
  for (const auto& [format, before] :
       {std::pair<std::string, std::string>{"time", ""}, {"date-time", "2000-02-29T"}}) {
    SCOPED_TRACE(format);
    std::vector<std::string> tried, valid;
    for (const std::string& text : good) valid.push_back("\"" + before + text + "\"");
    tried = valid;
    for (const std::string& text : wrong) tried.push_back("\"" + before + text + "\"");
    EXPECT_EQ(schema_texts(json{{"type", "string"}, {"format", format}}.dump(), tried), valid);
  }
  EXPECT_TRUE(schema_texts(R"({"format": "date-time"})",
                           {"\"2024-01-01\"", "\"2024-01-01 00:00:00Z\"",
                            "\"2024-01-01t00:00:00Z\"", "\"2023-02-29T00:00:00Z\""})
                  .empty());
}

TEST(JsonSchemaValues, FormatsThatAreNotKnownAreRefused) {
  EXPECT_THAT(schema_error(R"({"type": "string", "format": "email"})"),
              HasSubstr("#: 'format' of 'email' is not supported"));
  EXPECT_THAT(schema_error(R"({"type": "string", "format": "date", "maxLength": 10})"),
              HasSubstr("'maxLength' together with 'format'"));
  EXPECT_THAT(schema_error(R"({"type": "integer", "format": "int32"})"),
              HasSubstr("'format' is not"));
  EXPECT_THAT(schema_error(R"({"format": 3})", false), HasSubstr("'format' must be a string"));
}

TEST(JsonSchemaValues, ItemsByTheirPlace) {
  const std::vector<std::string> tried = {"[]",
                                          "[1]",
                                          "[1,\"a\"]",
                                          "[1, \"a\"]",
                                          "[1,\"a\",true]",
                                          "[1,\"a\",true,false]",
                                          "[\"a\",1]",
                                          "[1,1]",
                                          "[1,\"a\",null]",
                                          "[1,]",
                                          "[,\"a\"]"};
  const auto fitting = [&](std::string_view more) {
    return schema_texts(R"({"type": "array", "prefixItems": [{"type": "integer"},
        {"type": "string"}])" +
                            std::string(more) + "}",
                        tried);
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(fitting(""), ElementsAre("[]", "[1]", "[1,\"a\"]", "[1, \"a\"]"));
  EXPECT_THAT(fitting(R"(, "items": false)"), ElementsAre("[]", "[1]", "[1,\"a\"]", "[1, \"a\"]"));
  EXPECT_THAT(fitting(R"(, "minItems": 2)"), ElementsAre("[1,\"a\"]", "[1, \"a\"]"));
  EXPECT_THAT(fitting(R"(, "maxItems": 1)"), ElementsAre("[]", "[1]"));
  EXPECT_THAT(fitting(R"(, "maxItems": 0)"), ElementsAre("[]"));
  EXPECT_THAT(fitting(R"(, "items": {"type": "boolean"})"),
              ElementsAre("[]", "[1]", "[1,\"a\"]", "[1, \"a\"]", "[1,\"a\",true]",
                          "[1,\"a\",true,false]"));
  EXPECT_THAT(fitting(R"(, "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3)"),
              ElementsAre("[1,\"a\",true]"));
  EXPECT_THAT(fitting(R"(, "items": true, "minItems": 3, "maxItems": 3)"),
              ElementsAre("[1,\"a\",true]", "[1,\"a\",null]"));
  EXPECT_THAT(fitting(R"(, "minItems": 3)"), ElementsAre("[1,\"a\",true]", "[1,\"a\",null]"));
  // The array ends at the first item whose schema is false.
  EXPECT_THAT(schema_texts(R"({"prefixItems": [{"type": "integer"}, false, true]})", tried),
              ElementsAre("[]", "[1]"));
  EXPECT_THAT(schema_texts(R"({"type": "array", "items": false})", tried), ElementsAre("[]"));
  json many = {{"type", "array"}, {"minItems", 2000}, {"prefixItems", json::array()}};
  std::string text = "[";
  for (int i = 0; i < 2000; ++i) {
    many["prefixItems"].push_back({{"const", i}});
    text += (i > 0 ? "," : "") + std::to_string(i);
  }
  Machine machine(parsed_schema(many.dump()), vocabulary_with({}));
  EXPECT_TRUE(machine.matches(text + "]"));
  EXPECT_FALSE(machine.read(text + ","));
}

TEST(JsonSchemaValues, ItemsThatCannotBeAreNamed) {
  const auto bad = [](std::string_view schema) { return schema_error(schema, false); };
  EXPECT_THAT(bad(R"({"prefixItems": [true], "items": false, "minItems": 2})"),
              HasSubstr("'minItems' is 2, but only 1 items are allowed"));
  EXPECT_THAT(bad(R"({"type": "array", "items": false, "minItems": 1})"),
              HasSubstr("only 0 items"));
  EXPECT_THAT(bad(R"({"prefixItems": []})"), HasSubstr("'prefixItems' must be a list"));
  EXPECT_THAT(bad(R"({"prefixItems": {}})"), HasSubstr("'prefixItems' must be a list"));
  EXPECT_THAT(bad(R"({"type": "array", "items": [{}]})"), HasSubstr("is 'prefixItems'"));
  EXPECT_THAT(schema_error(R"({"prefixItems": [{"not": {}}]})"),
              HasSubstr("#/prefixItems/0: 'not'"));
}

TEST(JsonSchemaValues, LengthsCountCodePoints) {
  const std::vector<std::string> tried = {R"("")",
                                          R"("a")",
                                          R"("é")",
                                          R"("😀")",
                                          R"("\u00e9")",
                                          R"("\n")",
                                          R"("\ud83d\ude00")",
                                          R"("ab")",
                                          R"("é\"")",
                                          R"("e\u0301")"};
  using ::testing::ElementsAre;
  EXPECT_THAT(schema_texts(R"({"maxLength": 0})", tried), ElementsAre(R"("")"));
  EXPECT_THAT(
      schema_texts(R"({"minLength": 1, "maxLength": 1})", tried),
      ElementsAre(R"("a")", R"("é")", R"("😀")", R"("\u00e9")", R"("\n")", R"("\ud83d\ude00")"));
  EXPECT_THAT(schema_texts(R"({"minLength": 2})", tried),
              ElementsAre(R"("ab")", R"("é\"")", R"("e\u0301")"));
}

TEST(JsonSchemaValues, HugeLengthsAreRefusedOrFast) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(schema_error(R"({"maxLength": 4000000000})"), HasSubstr("'maxLength' above 100000"));
  for (const char* const key : {"minLength", "maxLength"}) {
    const auto grammar = parse_json_schema(json{{key, 100000}}.dump());
    ASSERT_TRUE(grammar.ok());
    const auto tables = build_tables(*grammar, vocabulary_with({}));
    if (tables.ok()) continue;
    EXPECT_TRUE(tables.failure().unsupported);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
