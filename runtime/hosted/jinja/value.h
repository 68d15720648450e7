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

/// What template expressions compute with: Python's values, as far as templates use them.
namespace llmc::hosted::jinja {

using Json = nlohmann::ordered_json;

/// What is wrong with a template or with what it does. Thrown inside this folder only, because any
/// of a hundred small operations may fail; Template gives it out as a Failure.
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& message, std::uint32_t at = 0)
      : std::runtime_error(message), line(at) {}
  std::uint32_t line;  // 0: not known yet
};

/// One bound for time and memory: every evaluated node costs kNode, every byte and list item that
/// is made its size. TemplateError when it is spent.
class Budget {
 public:
  static constexpr std::size_t kNode = 16;
  explicit Budget(std::size_t units) : left_(units) {}
  void spend(std::size_t units);
  /// For a search of `part` bytes in `text` bytes, which may compare all of them at each place.
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
  std::shared_ptr<const std::string> name;  // what was looked for, for messages; may be NULL
};
struct None {};
/// A function that every template knows, by name.
struct Builtin {
  const char* name;
};
/// A macro, and the frame of variables (Evaluator) that it was made in and sees when it is called.
/// It stands in that frame or is given on to calls from there, so the frame outlives it.
struct Macro {
  const Statement* statement;
  std::size_t frame;
};
/// object.NAME of a method that is not called: it is there, and nothing else can be done with it.
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
  /// Of plain data. TemplateError when it is nested too deeply.
  static Value from_json(const Json& json);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  /// The text, list or dict it is, or nullptr.
  const std::string* string() const;
  const List* list() const;
  const Dict* dict() const;
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  /// Data alone: no namespace, loop, macro or function, which may stand in no list and no dict, so
  /// that nothing can hold itself.
  bool is_plain() const;
  /// Nesting of lists and dicts: 0 for everything else.
  std::uint32_t depth() const;

  Data data;
};

constexpr std::uint32_t kMaxDataDepth = 32;

struct List {
  std::vector<Value> items;
  std::uint32_t depth = 1;
  bool tuple = false;  // never equal to a list, and not added to one
};
struct Dict {
  const Value* find(std::string_view key) const;
  std::vector<std::pair<std::string, Value>> items;  // in the order they were added
  std::uint32_t depth = 1;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};
/// The variable `loop` inside a for.
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index0 = 0;
};

/// TemplateError when an item is no plain data, or nested too deeply.
Value make_list(std::vector<Value> items, Budget& budget);
Value make_tuple(std::vector<Value> items, Budget& budget);
Value make_dict(std::vector<std::pair<std::string, Value>> items, Budget& budget);
Value make_text(std::string text, Budget& budget);

/// "a string", "an undefined value", … for messages.
std::string describe(const Value& value);
bool truthy(const Value& value);
/// Python's str().
std::string to_text(const Value& value, Budget& budget);
/// The arguments of json.dumps.
struct JsonStyle {
  std::optional<std::string> indent;  // of each level; nullopt: all on one line
  std::string between = ", ", behind_key = ": ";
  bool ascii = false, sorted = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);
/// As Python's repr() of a float.
std::string float_text(double value);

/// The number that a value is, if it is one; bool counts, as in Python.
std::optional<double> number(const Value& value);
std::optional<std::int64_t> whole(const Value& value);

bool equal(const Value& a, const Value& b, Budget& budget);
/// <0, 0, >0. TemplateError for values that have no order.
int compare(const Value& a, const Value& b, Budget& budget);
/// Whether `container` has `item`: part of a text, item of a list, key of a dict.
bool contains(const Value& container, const Value& item, Budget& budget);
/// What a for goes over. TemplateError for what is no sequence.
std::shared_ptr<const List> items_of(const Value& value, Budget& budget);

}  // namespace llmc::hosted::jinja
