#include <algorithm>
#include <optional>

#include "runtime/hosted/grammar/json_format.h"
#include "runtime/hosted/grammar/json_number_range.h"
#include "runtime/hosted/grammar/json_schema_builder.h"
#include "runtime/hosted/grammar/json_text.h"

namespace llmc::hosted::grammar {

Expr SchemaBuilder::constants(const Json& node, const std::string& path) {
  require_known(node, path, {"enum", "const", "type"}, "enum");
  if (node.contains("enum") && node.contains("const"))
    throw unsupported(path, "'const' together with 'enum'");
  const std::vector<std::string> types = types_of(node, path);
  std::vector<Expr> parts;
  const auto add = [&](const Json& value) {
    if (types.empty() || std::ranges::any_of(types, [&](const std::string& type) {
          return is_of_type(value, type);
        }))
      parts.push_back(text(value.dump()));
  };
  if (node.contains("const")) {
    add(node["const"]);
  } else {
    if (!node["enum"].is_array()) throw invalid(path, "'enum' must be a list");
    for (const Json& value : node["enum"]) add(value);
  }
  if (node.contains("enum") && node["enum"].empty())
    throw invalid(path, "'enum' is empty: no value is allowed");
  if (parts.empty()) {
    throw invalid(path, concat("no value of '", node.contains("enum") ? "enum" : "const",
                               "' is of the 'type'"));
  }
  return choice(std::move(parts));
}

Expr SchemaBuilder::string(const Json& node, const std::string& path) {
  if (node.contains("format")) return format(node, path);
  const CountRange length = counts_of(node, "minLength", "maxLength", path);
  if (!node.contains("pattern")) return json_string(length.min_count, length.max_count);
  if (length.min_count != 0 || length.max_count != kUnbounded)
    throw unsupported(path, "'pattern' together with 'minLength' or 'maxLength'");
  if (!node["pattern"].is_string()) throw invalid(path, "'pattern' must be a string");
  try {
    return json_pattern(node["pattern"].get_ref<const std::string&>());
  } catch (Failure& failure) {
    throw with_path(path, std::move(failure));
  }
}

Expr SchemaBuilder::format(const Json& node, const std::string& path) {
  if (!node["format"].is_string()) throw invalid(path, "'format' must be a string");
  for (const char* const key : {"pattern", "minLength", "maxLength"})
    if (node.contains(key)) throw unsupported(path, concat("'", key, "' together with 'format'"));
  const std::string& name = node["format"].get_ref<const std::string&>();
  std::optional<Expr> known = json_format(name);
  if (!known) throw unsupported(path, concat("'format' of '", printable(name), "'"));
  return *std::move(known);
}

Expr SchemaBuilder::number(const Json& node, const std::string& path, bool whole) {
  NumberBounds bounds;
  std::string lower_key, upper_key;
  for (const bool exclusive : {false, true}) {
    for (const bool is_lower : {true, false}) {
      const char* const key = is_lower ? (exclusive ? "exclusiveMinimum" : "minimum")
                                       : (exclusive ? "exclusiveMaximum" : "maximum");
      if (!node.contains(key)) continue;
      if (!node[key].is_number()) {
        throw invalid(path, concat("'", key, "' must be a number",
                                   exclusive && node[key].is_boolean()
                                       ? "; true and false are of drafts before 6"
                                       : ""));
      }
      const DecimalBound bound = decimal_bound(node[key], exclusive);
      std::optional<DecimalBound>& stricter = is_lower ? bounds.lower : bounds.upper;
      if (!stricter) {
        stricter = bound;
      } else {
        stricter = is_lower ? larger_bound(*stricter, bound) : smaller_bound(*stricter, bound);
      }
      if (stricter->exclusive == exclusive) (is_lower ? lower_key : upper_key) = key;
    }
  }
  if (!bounds.lower && !bounds.upper) return whole ? json_integer() : json_number();
  const char* const kind = whole ? "integer" : "number";
  if (are_contradictory(bounds)) {
    throw invalid(path, concat("'", lower_key, "' ", node[lower_key].dump(), " and '", upper_key,
                               "' ", node[upper_key].dump(), " leave no ", kind));
  }
  NumberRange range = whole ? integers_between(bounds) : decimals_between(bounds);
  if (range.problem == RangeProblem::kNone) return std::move(range.expr);
  if (range.problem == RangeProblem::kEmpty && whole)
    throw invalid(path, concat("no integer is between '", lower_key, "' ", node[lower_key].dump(),
                               " and '", upper_key, "' ", node[upper_key].dump()));
  if (range.problem == RangeProblem::kEmpty)
    throw unsupported(path, "a range of numbers that differ after the 15th digit");
  throw unsupported(path, concat("a bound of ", whole ? "integers" : "numbers", " of more than ",
                                 whole ? 18 : 15, " digits"));
}

}  // namespace llmc::hosted::grammar
