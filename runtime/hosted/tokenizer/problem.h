#pragma once

#include <string>
#include <utility>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// A description of what is wrong with a part of a file; empty: nothing is wrong.
struct Problem {
  Problem() = default;
  Problem(std::string what, bool is_unsupported = false)  // NOLINT
      : text(std::move(what)), unsupported(is_unsupported) {}
  Problem(const char* what) : text(what) {}  // NOLINT
  bool empty() const { return text.empty(); }

  std::string text;
  bool unsupported = false;  // the file may be valid but needs an unsupported feature
};

/// Returns the problem of an unsupported feature.
inline Problem not_supported(const std::string& what) {
  return {what + " is not supported", true};
}

/// Converts a problem of the file `name` to a Failure with LLMC_ERROR_FORMAT.
inline Failure failure_of(const std::string& name, const Problem& problem) {
  return {LLMC_ERROR_FORMAT, name + ": " + problem.text, problem.unsupported};
}

}  // namespace llmc::hosted
