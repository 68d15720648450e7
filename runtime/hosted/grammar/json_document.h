#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace llmc::hosted::grammar {

using Json = nlohmann::ordered_json;  // keeps the order of properties

/// Parses the text of a JSON schema. Throws if it is not JSON, is too long, or is nested so deeply
/// that a recursive function could overflow the stack.
Json parse_schema_document(std::string_view text);

/// Returns whether a value has the JSON schema type `type`, such as "object" or "integer".
bool is_of_type(const Json& value, const std::string& type);

/// Returns the value at a JSON pointer ("" or "/…"); nullptr if there is none.
const Json* resolve_pointer(const Json& root, const std::string& pointer);

}  // namespace llmc::hosted::grammar
