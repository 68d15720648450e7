#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/grammar/json_disjoint.h"
#include "runtime/hosted/grammar/json_document.h"

namespace llmc::hosted::grammar {

/// Converts one schema document to a grammar. In the functions below, `path` is the JSON pointer to
/// the current schema, for messages and names of rules; `depth` is the number of enclosing schemas.
class SchemaBuilder {
 public:
  explicit SchemaBuilder(const Json& root) : root_(root), disjointness_(root) {}

  Grammar build();

 private:
  struct Property {
    std::string key;
    std::uint32_t rule = 0;  // rule of the value
    bool required = false;
  };
  /// A range of numbers of items or characters; inclusive.
  struct CountRange {
    std::uint32_t min_count = 0, max_count = kUnbounded;
  };

  /// Returns the failure with the path before its message.
  static Failure with_path(const std::string& path, Failure failure);
  static Failure invalid(const std::string& path, const std::string& message);
  static Failure unsupported(const std::string& path, const std::string& what);
  /// Throws if `node` has a keyword that is neither in `known` nor an annotation.
  static void require_known(const Json& node, const std::string& path,
                            const std::set<std::string_view>& known, std::string_view sibling = {});
  /// Returns whether the keyword restricts no document.
  static bool is_annotation(std::string_view keyword);
  std::uint32_t add_rule(std::string name, Expr body);

  // json_schema.cpp: any schema
  Expr schema(const Json& node, const std::string& path, std::uint32_t depth);
  Expr typed(const std::string& type, const Json& node, const std::string& path,
             std::uint32_t depth);
  /// Returns the types in `type`; if it is missing, the types to which the other keywords apply.
  /// Empty: any type.
  static std::vector<std::string> types_of(const Json& node, const std::string& path);
  Expr referenced(const Json& node, const std::string& path);
  static std::string pointer_of(const Json& reference, const std::string& path);
  Expr combined(const Json& node, const char* key, const std::string& path, std::uint32_t depth);
  /// Returns a rule for a schema. Equal schemas share a rule if their keywords, apart from
  /// annotations, have scalar values only and none is `$ref`.
  std::uint32_t value_rule(const Json& node, const std::string& path, std::uint32_t depth);
  /// Returns the rule for a schema: an existing one if `node` is a reference or allows any value,
  /// otherwise that of value_rule().
  std::uint32_t rule_of(const Json& node, const std::string& path, std::uint32_t depth);
  /// Returns an expression for any document, a reference to one rule, which the first call adds.
  Expr any_value();

  // json_schema_scalars.cpp
  static Expr constants(const Json& node, const std::string& path);
  static Expr string(const Json& node, const std::string& path);
  static Expr format(const Json& node, const std::string& path);
  static Expr number(const Json& node, const std::string& path, bool whole);

  // json_schema_containers.cpp
  /// Returns the range that two keywords define. Throws if it is empty, invalid or too large.
  static CountRange counts_of(const Json& node, const char* min_key, const char* max_key,
                              const std::string& path);
  Expr array(const Json& node, const std::string& path, std::uint32_t depth);
  /// Returns an expression for an array with `prefixItems`, or with `items` false.
  Expr tuple(const Json& node, CountRange counts, const std::string& path, std::uint32_t depth);
  Expr object(const Json& node, const std::string& path, std::uint32_t depth);
  static std::vector<std::string> required_of(const Json& node, const std::string& path);
  Expr map_of(Expr value, const std::string& path);
  Expr members(const std::vector<Property>& properties, const std::string& path);

  const Json& root_;
  Disjointness disjointness_;
  Grammar grammar_;
  std::map<std::string, std::uint32_t> rules_of_pointers_;
  /// Rules of schemas with scalar values only, by their keywords and values.
  std::map<std::string, std::uint32_t> simple_rules_;
  std::optional<std::uint32_t> any_value_;
  std::vector<std::pair<std::uint32_t, std::string>> pending_;  // rules without a body
};

}  // namespace llmc::hosted::grammar
