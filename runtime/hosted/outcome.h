#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "llmc/llmc.h"

namespace llmc::hosted {

/// An error: a status for programs, and a message for people. The message is one sentence without a
/// full stop; it names the file, if any.
struct Failure {
  llmc_status status = LLMC_ERROR_FORMAT;
  std::string message;
  bool unsupported = false;  // the input may be valid but needs an unsupported feature
  std::string hint = {};     // suggestion what to do; may be empty
};

/// A value, or the failure that prevented it.
template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}            // NOLINT
  Outcome(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  /// Return the value. If !ok(), they throw std::bad_variant_access.
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace llmc::hosted
