#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/hosted/jinja/value.h"

/// Implements the filters, tests, methods and functions that templates call by name.
namespace llmc::hosted::jinja {

/// The evaluated arguments of a call.
class Arguments {
 public:
  Arguments(std::string function, std::vector<Value> positional,
            std::vector<std::pair<std::string, Value>> named)
      : function_(std::move(function)),
        positional_(std::move(positional)),
        named_(std::move(named)),
        used_(named_.size()) {}

  const std::string& function() const { return function_; }
  std::size_t positional() const { return positional_.size(); }
  const std::vector<Value>& all() const { return positional_; }
  /// Returns the positional argument `index` or, if it is missing, the named argument `name`;
  /// nullptr if there is neither.
  const Value* find(std::size_t index, std::string_view name);
  const Value& get(std::size_t index, std::string_view name);
  std::string text(std::size_t index, std::string_view name);
  std::int64_t whole(std::size_t index, std::string_view name, std::int64_t otherwise);
  bool flag(std::size_t index, std::string_view name, bool otherwise);
  /// Throws TemplateError if there are more than `max_positional` positional arguments, or a named
  /// argument that was never requested.
  void finish(std::size_t max_positional) const;
  std::vector<std::pair<std::string, Value>> take_named();
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string function_;
  std::vector<Value> positional_;
  std::vector<std::pair<std::string, Value>> named_;
  std::vector<bool> used_;
};

Value apply_filter(const Value& value, Arguments arguments, Budget& budget);
bool apply_test(const Value& value, Arguments arguments, Budget& budget);
/// Returns object.NAME(arguments), where NAME is the function of `arguments`.
Value call_method(const Value& object, Arguments arguments, Budget& budget);
/// Calls the function range, namespace, dict, raise_exception or strftime_now. `now`: seconds since
/// 1970.
Value call_builtin(Arguments arguments, std::int64_t now, Budget& budget);

/// Returns the method object.NAME; nullopt if there is none. Methods that change a list or dict are
/// not available: for those of dicts, returns an undefined value; for those of lists, nullopt.
std::optional<Value> method_of(const Value& object, const std::string& name);
/// Returns object.NAME: a method or, if there is none, an attribute or a dict's item; undefined if
/// there is none. Throws TemplateError if the object is undefined, a macro or a function, and for
/// unsupported attributes of a loop.
Value attribute_of(const Value& object, const std::string& name, Budget& budget);
/// Returns object[index]; undefined if there is none. If `index` is a string, returns a dict's
/// item; if there is none, object.NAME. Throws TemplateError if the object is undefined.
Value item_of(const Value& object, const Value& index, Budget& budget);
/// Returns object[from:to:step] as in Python. A missing bound is undefined or none.
Value slice_of(const Value& object, const Value& from, const Value& to, const Value& step,
               Budget& budget);
/// Returns a OPERATOR b for the operators + - * / // % ** ~.
Value apply_operator(std::string_view name, const Value& a, const Value& b, Budget& budget);
Value negated(const Value& value);

}  // namespace llmc::hosted::jinja
