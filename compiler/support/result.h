#pragma once

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/diagnostic.h"

namespace llmc {

/// One or more diagnostics of a failed operation. Never empty.
class Error {
 public:
  Error(Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }  // NOLINT
  explicit Error(std::vector<Diagnostic> diagnostics) : diagnostics_(std::move(diagnostics)) {
    LLMC_CHECK(!diagnostics_.empty());
  }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  const Diagnostic& first() const { return diagnostics_.front(); }
  /// Sets `file` in the diagnostics that have none, so that inner functions need not know the
  /// file's name.
  Error&& in_file(const std::string& file) && {
    for (auto& d : diagnostics_)
      if (d.file.empty()) d.file = file;
    return std::move(*this);
  }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// A value, or the Error that prevented it.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  Result(Diagnostic d) : Result(Error(std::move(d))) {}                      // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return check(), std::get<0>(state_); }
  const T& value() const& { return check(), std::get<0>(state_); }
  T&& value() && { return check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return LLMC_CHECK(!ok()), std::get<1>(state_); }
  Error&& error() && { return LLMC_CHECK(!ok()), std::get<1>(std::move(state_)); }

 private:
  void check() const { LLMC_CHECK(ok()); }
  std::variant<T, Error> state_;
};

/// The result of an operation that returns no value.
struct Unit {};
using Status = Result<Unit>;
inline Status ok_status() {
  return Unit{};
}

#define LLMC_CONCAT_INNER(a, b) a##b
#define LLMC_CONCAT(a, b) LLMC_CONCAT_INNER(a, b)
/// LLMC_TRY(auto x, expression): evaluates a Result and defines x as its value. On an error, the
/// enclosing function returns the error.
#define LLMC_TRY(declaration, expression) \
  LLMC_TRY_INNER(LLMC_CONCAT(llmc_result_, __LINE__), declaration, expression)
#define LLMC_TRY_INNER(result, declaration, expression) \
  auto result = (expression);                           \
  if (!result.ok()) return std::move(result).error();   \
  declaration = std::move(result).value()
/// LLMC_RETURN_IF_ERROR(expression): evaluates a Status. On an error, the enclosing function
/// returns it.
#define LLMC_RETURN_IF_ERROR(expression)                      \
  do {                                                        \
    if (auto llmc_status_ = (expression); !llmc_status_.ok()) \
      return std::move(llmc_status_).error();                 \
  } while (false)

}  // namespace llmc
