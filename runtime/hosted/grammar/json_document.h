#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace llmc::hosted::grammar {

using Json = nlohmann::ordered_json;  // keeps the order of properties

/// Parses the text of a JSON schema. Throws if it is not JSON, too long, or nested so deeply that
/// recursion over it could overflow the stack.
Json parse_schema_document(std::string_view text);

/// Whether a value has a type of JSON schema: "object", "integer", …
bool is_of_type(const Json& value, const std::string& type);

/// Returns the value at a JSON pointer ("" or "/…"), or nullptr.
const Json* resolve_pointer(const Json& root, const std::string& pointer);

}  // namespace llmc::hosted::grammar
