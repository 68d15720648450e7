#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/grammar/json_document.h"

namespace llmc::hosted::grammar {

/// Compares schemas of one document. Every comparison of all calls counts towards one limit.
class Disjointness {
 public:
  explicit Disjointness(const Json& root) : root_(root) {}

  /// Whether it is certain that no document fits both schemas: their types differ, or their
  /// constants do, or those of a property that both require. false once the limit is reached.
  bool are_disjoint(const Json& a, const Json& b) { return disjoint(&a, &b, 0); }
  /// It was too much work: what was said since is not sure.
  bool is_exhausted() const { return work_ > kMaxWork; }

  static constexpr std::uint64_t kMaxWork = 20'000'000;  // a few seconds

 private:
  /// What matters of a schema, found once.
  struct Facts {
    std::array<bool, 6> types{};  // it may allow: object, array, string, boolean, null, number
    std::optional<std::vector<std::string>> constants;  // all it allows: keys, sorted
    std::map<std::string, const Json*> required;        // properties with a schema
  };

  bool disjoint(const Json* a, const Json* b, int depth);
  const Facts& facts_of(const Json* schema);

  const Json& root_;
  std::map<const Json*, Facts> facts_;
  std::uint64_t work_ = 0;
};

}  // namespace llmc::hosted::grammar
