#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// The values of template expressions: the subset of Python's values that templates use.
namespace llmc::hosted::jinja {

using Json = nlohmann::ordered_json;

/// An error in a template or while rendering it. Only thrown inside this folder, because any of a
/// hundred small operations may fail; Template converts it to a Failure.
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& message, std::uint32_t at = 0)
      : std::runtime_error(message), line(at) {}
  std::uint32_t line;  // 0: unknown
};

/// A common limit of time and memory: every evaluated node costs kNode, and created bytes and list
/// items cost their number. Throws TemplateError when it is exceeded.
class Budget {
 public:
  static constexpr std::size_t kNode = 16;
  explicit Budget(std::size_t units) : left_(units) {}
  void spend(std::size_t units);
  /// Spends for a search of `part` bytes in `text` bytes, which may compare all of them at each
  /// position.
  void spend_search(std::size_t text, std::size_t part);

 private:
  std::size_t left_;
};

struct Statement;
class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;

struct Undefined {
  std::shared_ptr<const std::string> name;  // name that was looked up, for messages; may be NULL
};
struct None {};
/// A function that is available in every template.
struct Builtin {
  const char* name;
};
/// A macro and the frame of variables (Evaluator) in which it was defined and which it sees when
/// called. The macro is stored in that frame or passed to calls from there, so the frame outlives
/// it.
struct Macro {
  const Statement* statement;
  std::size_t frame;
};
/// object.NAME of a method without a call; it supports no other operation.
struct Method {
  std::shared_ptr<const std::string> name;
};

using Text = std::shared_ptr<const std::string>;

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                   std::shared_ptr<const Loop>, Macro, Method, Builtin>;

  Value() = default;  // undefined
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Value> && std::is_constructible_v<Data, T>)
  explicit Value(T&& data) : data(std::forward<T>(data)) {}
  static Value undefined(std::string name);
  static Value text(std::string text);
  /// Converts plain data. Throws TemplateError if it is nested too deeply.
  static Value from_json(const Json& json);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  /// Return the text, list or dict, or nullptr if the value is of another type.
  const std::string* string() const;
  const List* list() const;
  const Dict* dict() const;
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  /// Returns whether this is data: not a namespace, loop, macro or function. Lists and dicts
  /// contain only data, so that there are no cycles.
  bool is_plain() const;
  /// Returns the nesting of lists and dicts; 0 for all other values.
  std::uint32_t depth() const;

  Data data;
};

constexpr std::uint32_t kMaxDataDepth = 32;

struct List {
  std::vector<Value> items;
  std::uint32_t depth = 1;
  bool tuple = false;  // a tuple never equals a list and is not concatenated with one
};
struct Dict {
  const Value* find(std::string_view key) const;
  std::vector<std::pair<std::string, Value>> items;  // in order of insertion
  std::uint32_t depth = 1;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};
/// The variable `loop` inside a for loop.
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index0 = 0;
};

/// Throw TemplateError if an item is not plain data or nested too deeply.
Value make_list(std::vector<Value> items, Budget& budget);
Value make_tuple(std::vector<Value> items, Budget& budget);
Value make_dict(std::vector<std::pair<std::string, Value>> items, Budget& budget);
Value make_text(std::string text, Budget& budget);

/// Returns "a string", "an undefined value", … for messages.
std::string describe(const Value& value);
bool truthy(const Value& value);
/// Implements Python's str().
std::string to_text(const Value& value, Budget& budget);
/// The arguments of json.dumps.
struct JsonStyle {
  std::optional<std::string> indent;  // per level; nullopt: everything on one line
  std::string between = ", ", after_key = ": ";
  bool ascii = false, sorted = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);
/// Formats a float as Python's repr().
std::string float_text(double value);

/// Returns the value as a number, if it is one; bools count, as in Python.
std::optional<double> number(const Value& value);
std::optional<std::int64_t> whole(const Value& value);

bool equal(const Value& a, const Value& b, Budget& budget);
/// Returns <0, 0 or >0. Throws TemplateError for values without an order.
int compare(const Value& a, const Value& b, Budget& budget);
/// Returns whether `container` contains `item`: substring of a text, item of a list, key of a dict.
bool contains(const Value& container, const Value& item, Budget& budget);
/// Returns the items that a for loop visits. Throws TemplateError for values that are not
/// sequences.
std::shared_ptr<const List> items_of(const Value& value, Budget& budget);

}  // namespace llmc::hosted::jinja
