#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "llmc/llmc.h"

namespace llmc::hosted {

/// What went wrong, for a program (status) and for a person (message: one sentence, no full stop,
/// naming the file where one is concerned).
struct Failure {
  llmc_status status = LLMC_ERROR_FORMAT;
  std::string message;
  bool unsupported = false;  // nothing is wrong with it: it asks for what there is not
  std::string hint = {};     // what to do about it; may be empty
};

/// A value or the failure that kept it from being made.
template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}            // NOLINT
  Outcome(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  /// Only when ok(); std::bad_variant_access otherwise.
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
