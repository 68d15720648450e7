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

/// An error in a template or while rendering it. It is thrown only inside this folder, where nearly
/// every operation may fail; Template converts it to a Failure.
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& message, std::uint32_t at = 0)
      : std::runtime_error(message), line(at) {}
  std::uint32_t line;  // 0: unknown
};

/// Limits the total time and memory of a rendering. Every evaluated node and every item of a
/// created list or dict costs kNode units, and every created byte costs one. Throws TemplateError
/// when the limit is exceeded.
class Budget {
 public:
  static constexpr std::size_t kNode = 16;
  explicit Budget(std::size_t units) : left_(units) {}
  void spend(std::size_t units);
  /// Spends the cost of a search for `part` bytes in `text` bytes, which may compare all `part`
  /// bytes at each position.
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
  /// The name that was looked up, for messages; may be NULL.
  std::shared_ptr<const std::string> name;
};
struct None {};
/// A function that is available in every template.
struct Builtin {
  const char* name;
};
/// A macro, and the frame of variables (Evaluator) in which it was defined. Calls use the variables
/// of this frame. The macro is stored in that frame, or passed to calls from there, so the frame
/// outlives it.
struct Macro {
  const Statement* statement;
  std::size_t frame;
};
/// A method object.NAME that is not called. It supports no operations.
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
  /// Converts JSON data to a value. Throws TemplateError if it is nested too deeply.
  static Value from_json(const Json& json);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  /// Return the text, list or dict; nullptr if the value has another type.
  const std::string* string() const;
  const List* list() const;
  const Dict* dict() const;
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  /// Returns whether the value is data: not a namespace, loop, macro, method or function. Lists and
  /// dicts contain only data, so there are no cycles.
  bool is_plain() const;
  /// Returns the depth of nested lists and dicts; 0 for all other values.
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

/// Create a value. They throw TemplateError if an item is not data or is nested too deeply, or if
/// the budget is exceeded.
Value make_list(std::vector<Value> items, Budget& budget);
Value make_tuple(std::vector<Value> items, Budget& budget);
Value make_dict(std::vector<std::pair<std::string, Value>> items, Budget& budget);
Value make_text(std::string text, Budget& budget);

/// Returns "a string", "an undefined value", … for messages.
std::string describe(const Value& value);
bool truthy(const Value& value);
/// Implements Python's str(), but returns "" for an undefined value. Throws TemplateError for
/// values that are not data.
std::string to_text(const Value& value, Budget& budget);
/// The arguments of Python's json.dumps.
struct JsonStyle {
  std::optional<std::string> indent;  // indentation per level; nullopt: one line
  std::string between = ", ", after_key = ": ";
  bool ascii = false, sorted = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);
/// Formats a number like Python's repr().
std::string float_text(double value);

/// Return the value as a number, or as an integer; nullopt if it is not one. Bools are integers, as
/// in Python.
std::optional<double> number(const Value& value);
std::optional<std::int64_t> whole(const Value& value);

bool equal(const Value& a, const Value& b, Budget& budget);
/// Returns a negative number, 0 or a positive number. Throws TemplateError for values without an
/// order.
int compare(const Value& a, const Value& b, Budget& budget);
/// Returns whether `container` contains `item`: a part of a text, an item of a list, or a key of a
/// dict. An undefined container contains nothing. Throws TemplateError for other containers, and
/// for an item that is not a text if the container is one.
bool contains(const Value& container, const Value& item, Budget& budget);
/// Returns the items over which a for loop iterates: those of a list, the keys of a dict, the
/// characters of a text; none for an undefined value. Throws TemplateError for other values.
std::shared_ptr<const List> items_of(const Value& value, Budget& budget);

}  // namespace llmc::hosted::jinja
