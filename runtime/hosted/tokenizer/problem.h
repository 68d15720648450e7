#pragma once

#include <string>
#include <utility>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// What is wrong with a part of a file; empty: nothing.
struct Problem {
  Problem() = default;
  Problem(std::string what, bool is_unsupported = false)  // NOLINT
      : text(std::move(what)), unsupported(is_unsupported) {}
  Problem(const char* what) : text(what) {}  // NOLINT
  bool empty() const { return text.empty(); }

  std::string text;
  bool unsupported = false;  // the file may be whole, and asks for what there is not
};

/// The one way to say that something is not there.
inline Problem not_supported(const std::string& what) {
  return {what + " is not supported", true};
}

/// The problem of the file `name`. LLMC_ERROR_FORMAT.
inline Failure failure_of(const std::string& name, const Problem& problem) {
  return {LLMC_ERROR_FORMAT, name + ": " + problem.text, problem.unsupported};
}

}  // namespace llmc::hosted
