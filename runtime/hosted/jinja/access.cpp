// Operations on values: attributes, items, slices and arithmetic.
#include <algorithm>
#include <cmath>

#include "runtime/hosted/jinja/functions.h"
#include "runtime/hosted/jinja/strings.h"

namespace llmc::hosted::jinja {
namespace {

constexpr std::string_view kLoopAttributes[] = {
    "index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"};

Value loop_attribute(const Loop& loop, const std::string& name, Budget& budget) {
  const auto& items = loop.items->items;
  const auto whole = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  const std::size_t i = loop.index0;
  if (name == "index0") return whole(i);
  if (name == "index") return whole(i + 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == items.size());
  if (name == "length") return whole(items.size());
  if (name == "revindex") return whole(items.size() - i);
  if (name == "revindex0") return whole(items.size() - i - 1);
  if (name == "previtem") return i == 0 ? Value::undefined("loop.previtem") : items[i - 1];
  if (name == "nextitem")
    return i + 1 == items.size() ? Value::undefined("loop.nextitem") : items[i + 1];
  budget.spend(Budget::kNode);
  throw TemplateError("loop." + name + " is not supported");
}

/// Converts a Python index to 0 .. size - 1. Returns nullopt if it is out of range.
std::optional<std::size_t> place(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<std::int64_t> bound(const Value& value, const char* what) {
  if (value.is_undefined() || value.as<None>() != nullptr) return std::nullopt;
  if (const auto* number = value.as<std::int64_t>()) return *number;
  throw TemplateError(std::string("the ") + what + " of a slice is " + describe(value));
}

/// Returns the indices of [from:to:step] in a sequence of `size` items.
std::vector<std::size_t> slice_indices(std::optional<std::int64_t> from,
                                       std::optional<std::int64_t> to, std::int64_t step,
                                       std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  const std::int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? length - 1 : length;
  const auto clamp = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
    if (!given) return otherwise;
    const std::int64_t at = *given < 0 ? std::max(*given, -length - 1) + length : *given;
    return std::clamp(at, lowest, std::max(lowest, highest));
  };
  const std::int64_t begin = clamp(from, step < 0 ? highest : lowest);
  const std::int64_t end = clamp(to, step < 0 ? lowest : highest);
  std::vector<std::size_t> indices;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    indices.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return indices;
}

Value whole_arithmetic(std::string_view name, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (name == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (name == "**") {
    if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
    result = 1;
    if (a == 0 || a == 1) return Value(b == 0 ? std::int64_t{1} : a);
    if (a == -1) return Value(b % 2 == 0 ? std::int64_t{1} : std::int64_t{-1});
    for (; b > 0 && !overflow; --b) overflow = __builtin_mul_overflow(result, a, &result);
  } else {
    if (b == 0) throw TemplateError("division by 0");
    if (name == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
    if (b == -1) {
      overflow = name == "//" && __builtin_sub_overflow(std::int64_t{0}, a, &result);
    } else {
      const std::int64_t rest = a % b;
      const bool down = rest != 0 && (rest < 0) != (b < 0);  // round towards minus infinity
      result = name == "//" ? a / b - (down ? 1 : 0) : rest + (down ? b : 0);
    }
  }
  if (overflow) throw TemplateError("a whole number becomes too large");
  return Value(result);
}

Value float_arithmetic(std::string_view name, double a, double b) {
  if (name == "+") return Value(a + b);
  if (name == "-") return Value(a - b);
  if (name == "*") return Value(a * b);
  if (name == "**") return Value(std::pow(a, b));
  if (b == 0) throw TemplateError("division by 0");
  if (name == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return Value(name == "//" ? std::floor((a - rest) / b + 0.5) : rest);
}

Value repeated(const Value& value, std::int64_t times, Budget& budget) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (const std::string* text = value.string()) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(text->size(), n, &bytes)) bytes = SIZE_MAX;
    budget.spend(bytes);
    std::string result;
    for (std::size_t i = 0; !text->empty() && i < n; ++i) result += *text;
    return Value::text(std::move(result));
  }
  const List& list = *value.list();
  const auto make = list.tuple ? make_tuple : make_list;
  std::size_t count = 0;
  if (__builtin_mul_overflow(list.items.size(), n, &count)) count = SIZE_MAX / Budget::kNode;
  budget.spend(std::min(count, SIZE_MAX / Budget::kNode) * Budget::kNode);
  std::vector<Value> items;
  for (std::size_t i = 0; !list.items.empty() && i < n; ++i)
    items.insert(items.end(), list.items.begin(), list.items.end());
  return make(std::move(items), budget);
}

}  // namespace

bool is_loop_attribute(std::string_view name) {
  return std::ranges::find(kLoopAttributes, name) != std::end(kLoopAttributes);
}

Value attribute_of(const Value& object, const std::string& name, Budget& budget) {
  budget.spend(Budget::kNode);
  if (object.is_undefined())
    throw TemplateError("'" + name + "' is looked for in " + describe(object));
  // A method hides a dict's item with the same name, as in Python's getattr().
  if (auto method = method_of(object, name)) return *std::move(method);
  if (const Dict* dict = object.dict()) {
    budget.spend(dict->items.size());
    if (const Value* item = dict->find(name)) return *item;
  } else if (const auto* ns = object.as<std::shared_ptr<Namespace>>()) {
    for (const auto& [key, value] : (*ns)->attributes)
      if (key == name) return value;
  } else if (const auto* loop = object.as<std::shared_ptr<const Loop>>()) {
    return loop_attribute(**loop, name, budget);
  } else if (object.as<Macro>() != nullptr || object.as<Builtin>() != nullptr) {
    throw TemplateError("attributes of " + describe(object) + " are not supported");
  }
  return Value::undefined(name);
}

Value item_of(const Value& object, const Value& index, Budget& budget) {
  if (const std::string* name = index.string()) {
    // object['NAME'] is a dict's item, if there is one.
    if (const Dict* dict = object.dict()) {
      budget.spend(dict->items.size() + Budget::kNode);
      if (const Value* item = dict->find(*name)) return *item;
    }
    return attribute_of(object, *name, budget);
  }
  budget.spend(Budget::kNode);
  if (object.is_undefined()) throw TemplateError("an item is looked for in " + describe(object));
  if (const auto* at = index.as<std::int64_t>()) {
    if (const List* list = object.list()) {
      const auto found = place(*at, list->items.size());
      return found ? list->items[*found] : Value::undefined("item " + std::to_string(*at));
    }
    if (const std::string* text = object.string()) {
      budget.spend(text->size());
      const auto all = characters(*text);
      const auto found = place(*at, all.size());
      return found ? Value::text(std::string(all[*found]))
                   : Value::undefined("character " + std::to_string(*at));
    }
  }
  return Value::undefined("an item");
}

Value slice_of(const Value& object, const Value& from, const Value& to, const Value& step,
               Budget& budget) {
  const std::int64_t by = bound(step, "step").value_or(1);
  if (by == 0) throw TemplateError("the step of a slice is 0");
  const auto begin = bound(from, "start"), end = bound(to, "end");
  if (const List* list = object.list()) {
    budget.spend(list->items.size() * Budget::kNode);
    std::vector<Value> items;
    for (const std::size_t i : slice_indices(begin, end, by, list->items.size()))
      items.push_back(list->items[i]);
    return list->tuple ? make_tuple(std::move(items), budget) : make_list(std::move(items), budget);
  }
  if (const std::string* text = object.string()) {
    budget.spend(text->size() * Budget::kNode);
    const auto all = characters(*text);
    std::string result;
    for (const std::size_t i : slice_indices(begin, end, by, all.size())) result += all[i];
    return make_text(std::move(result), budget);
  }
  throw TemplateError(describe(object) + " has no slices");
}

Value apply_operator(std::string_view name, const Value& a, const Value& b, Budget& budget) {
  budget.spend(Budget::kNode);
  if (name == "~") {
    std::string text = to_text(a, budget);
    text += to_text(b, budget);
    return make_text(std::move(text), budget);
  }
  const auto m = whole(a), n = whole(b);
  if (m && n) return whole_arithmetic(name, *m, *n);
  if (const auto x = number(a), y = number(b); x && y) return float_arithmetic(name, *x, *y);
  if (name == "+") {
    if (const auto *x = a.string(), *y = b.string(); x != nullptr && y != nullptr) {
      budget.spend(x->size() + y->size());
      return Value::text(*x + *y);
    }
    if (const auto *x = a.list(), *y = b.list();
        x != nullptr && y != nullptr && x->tuple == y->tuple) {
      budget.spend((x->items.size() + y->items.size()) * Budget::kNode);
      std::vector<Value> items = x->items;
      items.insert(items.end(), y->items.begin(), y->items.end());
      return x->tuple ? make_tuple(std::move(items), budget) : make_list(std::move(items), budget);
    }
  }
  const auto sequence = [](const Value& v) { return v.string() != nullptr || v.list() != nullptr; };
  if (name == "*" && sequence(a) && n) return repeated(a, *n, budget);
  if (name == "*" && m && sequence(b)) return repeated(b, *m, budget);
  if (name == "%" && a.string() != nullptr)
    throw TemplateError("formatting strings with % is not supported");
  throw TemplateError(describe(a) + " " + std::string(name) + " " + describe(b) +
                      " cannot be computed");
}

Value negated(const Value& value) {
  if (const auto n = whole(value)) return whole_arithmetic("-", 0, *n);
  if (const double* d = value.as<double>()) return Value(-*d);
  throw TemplateError("-(" + describe(value) + ") cannot be computed");
}

}  // namespace llmc::hosted::jinja
