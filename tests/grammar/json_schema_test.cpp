#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/grammar/grammar_fixture.h"

namespace llmc::hosted::grammar::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(JsonSchema, Objects) {
  constexpr std::string_view kSchema = R"({
    "type": "object", "title": "a person",
    "properties": {
      "name": {"type": "string"}, "age": {"type": "integer"},
      "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2}
    },
    "required": ["name"], "additionalProperties": false
  })";
  EXPECT_TRUE(schema_matches(kSchema, R"({"name":"Ann"})"));
  EXPECT_TRUE(schema_matches(kSchema, R"({"name": "Ann", "age": -7, "tags": ["a","b"]})"));
  EXPECT_TRUE(schema_matches(kSchema, R"({"name":"Ann","tags":[]})"));
  EXPECT_FALSE(schema_matches(kSchema, R"({"age":7})"));
  EXPECT_FALSE(schema_matches(kSchema, R"({"name":"Ann","tags":["a","b","c"]})"));
  EXPECT_FALSE(schema_matches(kSchema, R"({"name":"Ann","x":1})"));
  EXPECT_FALSE(schema_matches(kSchema, R"({"name":"Ann",})"));
  EXPECT_FALSE(schema_matches(kSchema, R"({"name":"Ann","age":1.5})"));
}

TEST(JsonSchema, OptionalPropertiesInEveryCombination) {
  constexpr std::string_view kSchema =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})";
  for (const char* const text : {"{}", R"({"a":1})", R"({"b":2})", R"({"c":3})", R"({"a":1,"b":2})",
                                 R"({"a":1,"c":3})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"})
    EXPECT_TRUE(schema_matches(kSchema, text)) << text;
  for (const char* const text : {R"({"b":2,"a":1})", R"({,"a":1})", R"({"a":1"b":2})"})
    EXPECT_FALSE(schema_matches(kSchema, text)) << text;
}

/// "property100000", …: alphabetical order is numerical order.
std::string property(int i) {
  return "property" + std::to_string(100000 + i);
}
/// A schema with `count` properties of schema `value`.
json with_properties(int count, const json& value) {
  json schema = {{"type", "object"}, {"additionalProperties", false}};
  for (int i = 0; i < count; ++i) schema["properties"][property(i)] = value;
  return schema;
}

TEST(JsonSchema, HundredsOfOptionalProperties) {
  for (const int count : {65, 300}) {
    SCOPED_TRACE(count);
    for (const json& value : {json{{"type", "string"}}, json{{"const", 7}}, json(true)}) {
      Machine machine(parsed_schema(with_properties(count, value).dump()),
                      vocabulary_with({"\":", "{\"", ",\"property", "\"}", "7}"}));
      const auto member = [&](int i) {
        return "\"" + property(i) + "\":" + (value == json{{"const", 7}} ? "7" : "\"x\"");
      };
      EXPECT_TRUE(machine.matches("{}"));
      std::string some = "{" + member(0);
      for (int i = 1; i < count; i += 1 + i % 3) some += "," + member(i);
      EXPECT_TRUE(machine.matches(some + "}"));
      EXPECT_FALSE(machine.read(some + "," + member(0)));
      EXPECT_TRUE(machine.matches("{" + member(count - 1) + "}"));
      EXPECT_FALSE(machine.read("{" + member(count)));
      EXPECT_TRUE(machine.read("{"));
      EXPECT_TRUE(machine.allowed()['"']);
    }
  }
}

TEST(JsonSchema, HundredsOfRequiredPropertiesThatReferToOneSchema) {
  // After a value, 600 different frames can be on top of the stack.
  json schema = with_properties(600, json{{"$ref", "#/$defs/node"}});
  schema["$defs"]["node"] = json::parse(R"({"anyOf": [{"type": "integer"}, {"type": "array",
      "items": {"$ref": "#/$defs/node"}}]})");
  std::string text = "{";
  for (const auto& [key, value] : schema["properties"].items()) {
    schema["required"].push_back(key);
    text += (text.size() > 1 ? ",\"" : "\"") + key + "\":[[1],2]";
  }
  Machine machine(parsed_schema(schema.dump()), vocabulary_with({"]]", "],\"", "]}", "1]"}));
  EXPECT_TRUE(machine.matches(text + "}"));
  EXPECT_FALSE(machine.read(text + ",\"" + property(0) + "\":1"));
  EXPECT_FALSE(machine.matches("{}"));
}

TEST(JsonSchema, LongListsAreRead) {
  // Distinguished by a property; all pairs are compared.
  json one = {{"oneOf", json::array()}};
  for (int i = 0; i < 500; ++i)
    one["oneOf"].push_back({{"type", "object"},
                            {"required", json::array({"k"})},
                            {"properties", {{"k", {{"const", i}}}}}});
  EXPECT_TRUE(parse_json_schema(one.dump()).ok());
  json many = with_properties(20000, json{{"type", "null"}});
  for (const auto& [key, value] : many["properties"].items()) many["required"].push_back(key);
  EXPECT_TRUE(parse_json_schema(many.dump()).ok());
}

TEST(JsonSchema, StringsAndTheirLengths) {
  constexpr std::string_view kSchema = R"({"type": "string", "minLength": 2, "maxLength": 3})";
  EXPECT_TRUE(schema_matches(kSchema, R"("ab")"));
  EXPECT_TRUE(schema_matches(kSchema, R"("é€😀")"));
  EXPECT_TRUE(schema_matches(kSchema, R"("\n\u00e9")"));
  EXPECT_TRUE(schema_matches(kSchema, R"("\ud83d\ude00x")"));  // a surrogate pair is one character
  EXPECT_FALSE(schema_matches(kSchema, R"("\ud83d\ude00")"));
  EXPECT_FALSE(schema_matches(kSchema, R"("\ud83dx")"));  // a lone surrogate
  EXPECT_FALSE(schema_matches(kSchema, R"("a")"));
  EXPECT_FALSE(schema_matches(kSchema, R"("abcd")"));
  EXPECT_FALSE(schema_matches(kSchema, "\"a\nb\""));
  EXPECT_FALSE(schema_matches(kSchema, R"("\q1")"));
}

TEST(JsonSchema, Patterns) {
  const auto with = [](std::string_view pattern, std::string_view text) {
    return schema_matches(json{{"type", "string"}, {"pattern", pattern}}.dump(), text);
  };
  EXPECT_TRUE(with("^[0-9]{3}-\\d+$", R"("123-4")"));
  EXPECT_FALSE(with("^[0-9]{3}-\\d+$", R"("x123-4")"));
  EXPECT_TRUE(with("[0-9]{3}", R"("x123-4")"));
  EXPECT_TRUE(with("^a", R"("abc")"));
  EXPECT_FALSE(with("^a", R"("cba")"));
  EXPECT_TRUE(with("a$", R"("cba")"));
  EXPECT_TRUE(with("^(yes|no)$", R"("no")"));
  EXPECT_TRUE(with("^[^a]$", R"("\"")"));
  EXPECT_TRUE(with("^\"$", R"("\u0022")"));
  EXPECT_FALSE(with("^[^\"]$", R"("\u0022")"));
  EXPECT_TRUE(with("^\\w+\\s\\S+$", R"("a_1\té")"));
  EXPECT_TRUE(with("^.\\u00e9\\x41$", R"("\u263AéA")"));
  EXPECT_FALSE(with("^.$", R"("\n")"));
  EXPECT_TRUE(with("^(?:ab)*?c??$", R"("ababc")"));
  EXPECT_TRUE(with("^\\/[\\-x]\\.$", R"("\/-.")"));
}

TEST(JsonSchema, NumbersAndConstants) {
  EXPECT_TRUE(schema_matches(R"({"type": "number"})", "-1.5e+10"));
  EXPECT_TRUE(schema_matches(R"({"type": "number"})", "0"));
  EXPECT_FALSE(schema_matches(R"({"type": "number"})", "01"));
  EXPECT_FALSE(schema_matches(R"({"type": "number"})", "1."));
  EXPECT_FALSE(schema_matches(R"({"type": "number"})", "1e400"));
  EXPECT_FALSE(schema_matches(R"({"type": "integer"})", "1.5"));
  EXPECT_TRUE(schema_matches(R"({"type": ["string", "null"]})", "null"));
  EXPECT_TRUE(schema_matches(R"({"type": "boolean"})", "false"));
  EXPECT_TRUE(schema_matches(R"({"enum": ["a", 1, null, {"x": [1]}]})", R"({"x":[1]})"));
  EXPECT_FALSE(schema_matches(R"({"type": "string", "enum": ["a", 1]})", "1"));
  EXPECT_TRUE(schema_matches(R"({"const": "é\n"})", R"("é\n")"));
}

TEST(JsonSchema, ArraysUnionsReferences) {
  EXPECT_FALSE(schema_matches(R"({"type": "array", "minItems": 1})", "[]"));
  EXPECT_TRUE(schema_matches(R"({"type": "array", "minItems": 1})", R"([{"a": [1, "x"]}])"));
  EXPECT_TRUE(schema_matches(R"({"type": "array", "maxItems": 0})", "[]"));
  constexpr std::string_view kTree = R"({
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "required": ["v", "next"],
      "properties": {"v": {"type": "integer"},
                     "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}
  })";
  EXPECT_TRUE(schema_matches(kTree, R"({"v":1,"next":{"v":2,"next":null}})"));
  EXPECT_FALSE(schema_matches(kTree, R"({"v":1,"next":{"v":2,"next":null})"));
  EXPECT_TRUE(schema_matches(R"({"type": "array", "items": {"$ref": "#"}})", "[[],[[]]]"));
  constexpr std::string_view kOne = R"({"oneOf": [
    {"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}},
     "required": ["k"]},
    {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]})";
  EXPECT_TRUE(schema_matches(kOne, R"({"k":"a","x":1})"));
  EXPECT_TRUE(schema_matches(kOne, R"({"k":"b"})"));
  EXPECT_FALSE(schema_matches(kOne, R"({"k":"b","x":1})"));
  EXPECT_TRUE(schema_matches(R"({"type": "object", "additionalProperties": {"type": "integer"}})",
                             R"({"a":1, "b": 2})"));
  EXPECT_TRUE(schema_matches("true", R"([null,true,{"a":-0.5}])"));
  EXPECT_TRUE(schema_matches("{}", R"("x")"));
}

TEST(JsonSchema, RefusesByName) {
  EXPECT_THAT(schema_error(R"({"type": "integer", "multipleOf": 3})"),
              HasSubstr("#: 'multipleOf' is not"));
  EXPECT_THAT(schema_error(R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})"),
              HasSubstr("#/properties/a: 'uniqueItems'"));
  EXPECT_THAT(schema_error(R"({"allOf": [{}, {}]})"), HasSubstr("'allOf' of several"));
  EXPECT_THAT(schema_error(R"({"not": {}})"), HasSubstr("'not'"));
  EXPECT_THAT(schema_error(R"({"anyOf": [{}], "type": "string"})"),
              HasSubstr("'type' together with 'anyOf'"));
  EXPECT_THAT(schema_error(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})"),
              HasSubstr("'oneOf' whose schemas 0 and 1"));
  EXPECT_THAT(schema_error(R"({"$ref": "http://x/y"})"), HasSubstr("'$ref' to"));
  EXPECT_THAT(schema_error(R"-({"type": "string", "pattern": "a(?=b)"})-"), HasSubstr("'(?'"));
  EXPECT_THAT(schema_error(R"-({"type": "string", "pattern": "(a)\\1"})-"), HasSubstr("\\1"));
  EXPECT_THAT(schema_error(R"({"type": "string", "pattern": "\\bx"})"), HasSubstr("\\b"));
  EXPECT_THAT(schema_error(R"({"type": "string", "pattern": "^a|b"})"), HasSubstr("anchor"));
  EXPECT_THAT(schema_error(R"({"type": "string", "pattern": "a", "maxLength": 3})"),
              HasSubstr("'pattern' together with"));
  EXPECT_THAT(schema_error("false"), HasSubstr("'false'"));
  json lists = {{"oneOf", json::array()}};  // disjoint values, all pairs are compared
  for (int i = 0; i < 200; ++i) {
    json values = json::array();
    for (int k = 0; k < 2000; ++k) values.push_back(i * 2000 + k);
    lists["oneOf"].push_back({{"enum", values}});
  }
  EXPECT_THAT(schema_error(lists.dump()), HasSubstr("'oneOf' of 200 schemas, too many"));
  EXPECT_THAT(
      schema_error(R"({"properties": {"a": {}}, "additionalProperties": {"type": "null"}})"),
      HasSubstr("'additionalProperties'"));
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += R"({"items":)";
  EXPECT_THAT(schema_error(deep), HasSubstr("too deep"));
  deep.clear();
  for (int i = 0; i < 150; ++i) deep += R"({"items":)";
  EXPECT_THAT(schema_error(deep + "{}" + std::string(150, '}')), HasSubstr("nesting of more than"));
}

TEST(JsonSchema, TellsConstantsApartByTheirValues) {
  const auto refused = [](std::string_view a, std::string_view b) {
    const std::string schema =
        R"({"oneOf": [{"enum": [)" + std::string(a) + R"(]}, {"enum": [)" + std::string(b) + "]}]}";
    return schema_error(schema).find("'oneOf' whose schemas") != std::string::npos;
  };
  // Numbers of all types, in all orders.
  for (const char* const shared : {"18446744073709551615", "-1", "7", "0.5"}) {
    EXPECT_TRUE(refused("18446744073709551615, -1, 7, 0.5", shared)) << shared;
    EXPECT_TRUE(refused("0.5, 7, -1, 18446744073709551615", shared)) << shared;
    EXPECT_TRUE(refused("-1, 18446744073709551615, 0.5, 7", shared)) << shared;
  }
  EXPECT_TRUE(refused("1", "1.0"));
  EXPECT_TRUE(refused("-0.0", "0"));
  EXPECT_TRUE(refused("1e3", "1000"));
  EXPECT_TRUE(refused(R"({"a": 1, "b": [2.0]})", R"({"b": [2], "a": 1.0})"));
  EXPECT_FALSE(refused("18446744073709551615", "-1"));
  EXPECT_FALSE(refused("9007199254740993", "9007199254740992"));
  EXPECT_FALSE(refused("18446744073709551615, -1, 7", "-2, 8, 0.5"));
  EXPECT_FALSE(refused("1", R"("1")"));
  EXPECT_FALSE(refused(R"({"a": 1})", R"({"a": 2})"));
}

TEST(JsonSchema, SaysWhatIsWrong) {
  const auto bad = [](std::string_view schema) { return schema_error(schema, false); };
  EXPECT_THAT(bad("{"), HasSubstr("invalid JSON"));
  EXPECT_THAT(bad("3"), HasSubstr("must be an object"));
  EXPECT_THAT(bad(R"({"type": "text"})"), HasSubstr("'type'"));
  EXPECT_THAT(bad(R"({"type": 3})"), HasSubstr("'type'"));
  EXPECT_THAT(bad(R"({"$ref": "#/$defs/x"})"), HasSubstr("nothing at '#/$defs/x'"));
  EXPECT_THAT(bad(R"({"type": "string", "minLength": -1})"), HasSubstr("'minLength'"));
  EXPECT_THAT(bad(R"({"type": "string", "minLength": 3, "maxLength": 2})"), HasSubstr("larger"));
  EXPECT_THAT(bad(R"({"enum": [1], "type": "string"})"), HasSubstr("no value of 'enum' is of"));
  EXPECT_THAT(bad(R"({"enum": []})"), HasSubstr("'enum' is empty"));
  EXPECT_THAT(bad(R"({"required": ["a"], "additionalProperties": false})"), HasSubstr("forbidden"));
  EXPECT_THAT(bad(R"({"properties": []})"), HasSubstr("'properties'"));
  EXPECT_THAT(bad(R"({"anyOf": []})"), HasSubstr("'anyOf'"));
}

/// An independent validator for the supported keywords.
bool valid(const json& schema, const json& value, const json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    return valid(root.at(json::json_pointer(ref.substr(1))), value, root);
  }
  for (const char* const key : {"anyOf", "oneOf"}) {
    if (!schema.contains(key)) continue;
    int fits = 0;
    for (const json& one : schema[key]) fits += valid(one, value, root);
    return std::string_view(key) == "oneOf" ? fits == 1 : fits > 0;
  }
  if (schema.contains("const") && schema["const"] != value) return false;
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return false;
  if (schema.contains("type")) {
    const std::string type = schema["type"];
    const bool right = type == "object"    ? value.is_object()
                       : type == "array"   ? value.is_array()
                       : type == "string"  ? value.is_string()
                       : type == "integer" ? value.is_number_integer()
                       : type == "number"  ? value.is_number()
                       : type == "boolean" ? value.is_boolean()
                                           : value.is_null();
    if (!right) return false;
  }
  if (value.is_object()) {
    for (const json& key : schema.value("required", json::array()))
      if (!value.contains(key.get<std::string>())) return false;
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, inner] : value.items()) {
      if (properties.contains(key) && !valid(properties[key], inner, root)) return false;
      if (!properties.contains(key) && schema.value("additionalProperties", json(true)) == false)
        return false;
    }
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", std::size_t{0})) return false;
    if (value.size() > schema.value("maxItems", std::size_t{1000000})) return false;
    for (const json& item : value)
      if (!valid(schema.value("items", json(true)), item, root)) return false;
  }
  if (value.is_string()) {
    std::size_t characters = 0;
    for (const char c : value.get<std::string>()) characters += (c & 0xC0) != 0x80;
    if (characters < schema.value("minLength", std::size_t{0}) ||
        characters > schema.value("maxLength", std::size_t{1000000}))
      return false;
  }
  return true;
}

TEST(JsonSchema, WhatIsGeneratedParsesAndIsValid) {
  const char* const schemas[] = {
      R"({"type":"object","additionalProperties":false,"required":["id","kind"],"properties":{
         "id":{"type":"integer"},"name":{"type":"string","minLength":1,"maxLength":4},
         "kind":{"enum":["x","y",3,null]},"ratio":{"type":"number"},
         "items":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"boolean"}}}})",
      R"({"$defs":{"t":{"type":"object","required":["l"],"properties":{
         "l":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"integer"}]},"r":{"$ref":"#/$defs/t"}}}},
         "$ref":"#/$defs/t"})",
      R"({"oneOf":[{"type":"string","maxLength":3},{"type":"array","items":{"$ref":"#"}}]})",
      R"({"type":"array","maxItems":3})", "true"};
  std::mt19937 random(5);
  const std::vector<std::string> tokens = {"\":",   "\",\"", "\"}",      "},",  "]]",
                                           "}}",    "true",  " \"",      "[{",  "null",
                                           "\":\"", "é",     "\xF0\x9F", "\\u", ", "};
  for (const char* const schema : schemas) {
    SCOPED_TRACE(schema);
    const Grammar grammar = parsed_schema(schema);
    Machine machine(grammar, vocabulary_with(tokens));
    int complete = 0;
    for (int i = 0; i < 150; ++i) {
      const std::string text = machine.generate(random, 300);
      if (!machine.may_end()) continue;
      ++complete;
      const json value = json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text;
      ASSERT_TRUE(valid(json::parse(schema), value, json::parse(schema))) << text;
    }
    EXPECT_GT(complete, 10);
  }
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
