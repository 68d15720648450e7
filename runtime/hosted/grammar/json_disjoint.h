#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/grammar/json_document.h"

namespace llmc::hosted::grammar {

/// Determines whether two schemas exclude each other, so that no document is valid for both. One
/// limit bounds the total work of all calls.
class Disjointness {
 public:
  explicit Disjointness(const Json& root) : root_(root) {}

  /// Returns true if certainly no document is valid for both schemas: they have no common type or
  /// no common constant, or object is their only common type and both require a property whose
  /// schemas exclude each other. Returns false after the limit is exceeded.
  bool are_disjoint(const Json& a, const Json& b) { return disjoint(&a, &b, 0); }
  /// Returns whether the limit is exceeded; are_disjoint() then always returns false.
  bool is_exhausted() const { return work_ > kMaxWork; }

  static constexpr std::uint64_t kMaxWork = 20'000'000;  // corresponds to a few seconds

 private:
  /// What are_disjoint() needs to know about a schema.
  struct Facts {
    std::array<bool, 6> types{};  // possible types: object, array, string, boolean, null, number
    /// Sorted keys of the values of enum or const.
    std::optional<std::vector<std::string>> constants;
    std::map<std::string, const Json*> required;  // required properties and their schemas
  };

  bool disjoint(const Json* a, const Json* b, int depth);
  const Facts& facts_of(const Json* schema);

  const Json& root_;
  std::map<const Json*, Facts> facts_;
  std::uint64_t work_ = 0;
};

}  // namespace llmc::hosted::grammar
