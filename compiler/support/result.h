#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/diagnostic.h"

namespace llmc {

/// One or more diagnostics of a failed operation. Never empty.
class Error {
 public:
  Error(Diagnostic diagnostic);  // NOLINT
  explicit Error(std::vector<Diagnostic> diagnostics);
  // Not inline: every function that returns a Result has them on several paths.
  Error(const Error& other);
  Error(Error&& other) noexcept;
  Error& operator=(const Error& other);
  Error& operator=(Error&& other) noexcept;
  ~Error();
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

/// A value, or the Error that prevented it. (Compiling a std::variant of them for every T takes
/// longer.)
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT
  Result(Error error) : error_(std::move(error)) {}      // NOLINT
  Result(Diagnostic d) : Result(Error(std::move(d))) {}  // NOLINT

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& value() & { return check(), *value_; }
  const T& value() const& { return check(), *value_; }
  T&& value() && { return check(), *std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return LLMC_CHECK(!ok()), *error_; }
  Error&& error() && { return LLMC_CHECK(!ok()), *std::move(error_); }

 private:
  void check() const { LLMC_CHECK(ok()); }
  std::optional<T> value_;
  std::optional<Error> error_;
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
