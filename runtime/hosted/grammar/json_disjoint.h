#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/grammar/json_document.h"

namespace llmc::hosted::grammar {

/// Finds out whether schemas of one document exclude each other. One limit bounds the work of all
/// calls.
class Disjointness {
 public:
  explicit Disjointness(const Json& root) : root_(root) {}

  /// Returns whether certainly no document is valid for both schemas: their types differ, or their
  /// constants, or the same holds for a property that both require. false once the limit is
  /// exceeded.
  bool are_disjoint(const Json& a, const Json& b) { return disjoint(&a, &b, 0); }
  /// Whether the limit is exceeded: are_disjoint() returns false since then.
  bool is_exhausted() const { return work_ > kMaxWork; }

  static constexpr std::uint64_t kMaxWork = 20'000'000;  // a few seconds

 private:
  /// Summary of a schema.
  struct Facts {
    std::array<bool, 6> types{};  // possible: object, array, string, boolean, null, number
    std::optional<std::vector<std::string>> constants;  // sorted keys of enum or const
    std::map<std::string, const Json*> required;        // required properties and their schemas
  };

  bool disjoint(const Json* a, const Json* b, int depth);
  const Facts& facts_of(const Json* schema);

  const Json& root_;
  std::map<const Json*, Facts> facts_;
  std::uint64_t work_ = 0;
};

}  // namespace llmc::hosted::grammar
