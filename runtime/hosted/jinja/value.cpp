#include "runtime/hosted/jinja/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/hosted/jinja/strings.h"

namespace llmc::hosted::jinja {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

void check_item(const Value& item, std::uint32_t& depth) {
  if (!item.is_plain())
    throw TemplateError(describe(item) + " cannot be put into a list, dict or namespace");
  depth = std::max(depth, item.depth() + 1);
  if (depth > kMaxDataDepth) throw TemplateError("lists and dicts are nested too deeply");
}

template <class T>
int order(T a, T b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

Value from_json_at(const Json& json, std::uint32_t depth) {
  if (depth > kMaxDataDepth) throw TemplateError("lists and dicts are nested too deeply");
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX) return Value(json.get<double>());
      return Value(static_cast<std::int64_t>(json.get<std::uint64_t>()));
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value::text(json.get<std::string>());
    case Json::value_t::array: {
      List list;
      for (const Json& item : json) list.items.push_back(from_json_at(item, depth + 1));
      for (const Value& item : list.items) list.depth = std::max(list.depth, item.depth() + 1);
      return Value(std::make_shared<const List>(std::move(list)));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items())
        dict.items.emplace_back(key, from_json_at(item, depth + 1));
      for (const auto& [key, item] : dict.items)
        dict.depth = std::max(dict.depth, item.depth() + 1);
      return Value(std::make_shared<const Dict>(std::move(dict)));
    }
    default:
      return Value(None{});
  }
}

}  // namespace

void Budget::spend_search(std::size_t text, std::size_t part) {
  constexpr std::size_t kTogether = 32;  // bytes that are compared at the same time
  const std::size_t times = 1 + std::min(part, text) / kTogether;
  spend(text < SIZE_MAX / times ? text * times : SIZE_MAX);
}

void Budget::spend(std::size_t units) {
  if (units > left_) throw TemplateError("takes too much time or memory");
  left_ -= units;
}

Value Value::undefined(std::string name) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(name))});
}
Value Value::text(std::string text) {
  return Value(std::make_shared<const std::string>(std::move(text)));
}
Value Value::from_json(const Json& json) {
  return from_json_at(json, 0);
}

const std::string* Value::string() const {
  const Text* text = as<Text>();
  return text != nullptr ? text->get() : nullptr;
}
const List* Value::list() const {
  const auto* list = as<std::shared_ptr<const List>>();
  return list != nullptr ? list->get() : nullptr;
}
const Dict* Value::dict() const {
  const auto* dict = as<std::shared_ptr<const Dict>>();
  return dict != nullptr ? dict->get() : nullptr;
}
bool Value::is_plain() const {
  return as<std::shared_ptr<Namespace>>() == nullptr &&
         as<std::shared_ptr<const Loop>>() == nullptr && as<Macro>() == nullptr &&
         as<Method>() == nullptr && as<Builtin>() == nullptr;
}
std::uint32_t Value::depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth;
  return 0;
}

const Value* Dict::find(std::string_view key) const {
  const auto it =
      std::ranges::find(items, key, [](const auto& item) { return std::string_view(item.first); });
  return it == items.end() ? nullptr : &it->second;
}

namespace {
Value make_sequence(std::vector<Value> items, bool tuple, Budget& budget) {
  budget.spend(items.size() * Budget::kNode + Budget::kNode);
  List list;
  list.tuple = tuple;
  for (const Value& item : items) check_item(item, list.depth);
  list.items = std::move(items);
  return Value(std::make_shared<const List>(std::move(list)));
}
}  // namespace

Value make_list(std::vector<Value> items, Budget& budget) {
  return make_sequence(std::move(items), false, budget);
}
Value make_tuple(std::vector<Value> items, Budget& budget) {
  return make_sequence(std::move(items), true, budget);
}

Value make_dict(std::vector<std::pair<std::string, Value>> items, Budget& budget) {
  budget.spend(items.size() * Budget::kNode + Budget::kNode);
  Dict dict;
  for (auto& [key, item] : items) {
    check_item(item, dict.depth);
    budget.spend(key.size() + dict.items.size());  // the search takes linear time
    const auto known = std::ranges::find(dict.items, key, [](const auto& i) { return i.first; });
    if (known != dict.items.end()) {
      known->second = std::move(item);
    } else {
      dict.items.emplace_back(std::move(key), std::move(item));
    }
  }
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Value make_text(std::string text, Budget& budget) {
  budget.spend(text.size());
  return Value::text(std::move(text));
}

std::string describe(const Value& value) {
  return std::visit(
      Overloaded{
          [](const Undefined& u) {
            return u.name ? "'" + *u.name + "', which is undefined" : "an undefined value";
          },
          [](None) { return std::string("none"); },
          [](bool b) { return std::string(b ? "true" : "false"); },
          [](std::int64_t) { return std::string("a whole number"); },
          [](double) { return std::string("a number"); },
          [](const Text&) { return std::string("a string"); },
          [](const std::shared_ptr<const List>& l) {
            return std::string(l->tuple ? "a tuple" : "a list");
          },
          [](const std::shared_ptr<const Dict>&) { return std::string("a dict"); },
          [](const std::shared_ptr<Namespace>&) { return std::string("a namespace"); },
          [](const std::shared_ptr<const Loop>&) { return std::string("a loop"); },
          [](Macro) { return std::string("a macro"); },
          [](const Method& m) { return "the method '" + *m.name + "'"; },
          [](Builtin f) { return std::string("the function ") + f.name; },
      },
      value.data);
}

bool truthy(const Value& value) {
  return std::visit(Overloaded{
                        [](const Undefined&) { return false; },
                        [](None) { return false; },
                        [](bool b) { return b; },
                        [](std::int64_t i) { return i != 0; },
                        [](double d) { return d != 0; },
                        [](const Text& t) { return !t->empty(); },
                        [](const std::shared_ptr<const List>& l) { return !l->items.empty(); },
                        [](const std::shared_ptr<const Dict>& d) { return !d->items.empty(); },
                        [](const auto&) { return true; },
                    },
                    value.data);
}

std::optional<double> number(const Value& value) {
  if (const auto* v = value.as<bool>()) return *v ? 1.0 : 0.0;
  if (const auto* v = value.as<std::int64_t>()) return static_cast<double>(*v);
  if (const auto* v = value.as<double>()) return *v;
  return std::nullopt;
}
std::optional<std::int64_t> whole(const Value& value) {
  if (const auto* v = value.as<bool>()) return *v ? 1 : 0;
  if (const auto* v = value.as<std::int64_t>()) return *v;
  return std::nullopt;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.spend(Budget::kNode);
  if (const auto x = whole(a), y = whole(b); x && y) return *x == *y;
  if (const auto x = number(a), y = number(b); x && y) return *x == *y;
  if (const auto *x = a.string(), *y = b.string(); x != nullptr && y != nullptr) {
    budget.spend(std::min(x->size(), y->size()));
    return *x == *y;
  }
  if (const auto *x = a.list(), *y = b.list(); x != nullptr && y != nullptr)
    return x->tuple == y->tuple &&
           std::ranges::equal(x->items, y->items,
                              [&](const Value& v, const Value& w) { return equal(v, w, budget); });
  if (const auto *x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    return x->items.size() == y->items.size() &&
           std::ranges::all_of(x->items, [&](const auto& item) {
             budget.spend(y->items.size());
             const Value* other = y->find(item.first);
             return other != nullptr && equal(item.second, *other, budget);
           });
  }
  if (a.is_undefined() && b.is_undefined()) return true;
  if (a.as<None>() != nullptr && b.as<None>() != nullptr) return true;
  if (const auto *x = a.as<std::shared_ptr<Namespace>>(), *y = b.as<std::shared_ptr<Namespace>>();
      x != nullptr && y != nullptr)
    return *x == *y;
  return false;
}

int compare(const Value& a, const Value& b, Budget& budget) {
  budget.spend(Budget::kNode);
  if (const auto x = whole(a), y = whole(b); x && y) return order(*x, *y);
  if (const auto x = number(a), y = number(b); x && y) return order(*x, *y);
  if (const auto *x = a.string(), *y = b.string(); x != nullptr && y != nullptr) {
    budget.spend(std::min(x->size(), y->size()));
    return order(x->compare(*y), 0);  // the order of UTF-8 bytes is the order of the characters
  }
  if (const auto *x = a.list(), *y = b.list();
      x != nullptr && y != nullptr && x->tuple == y->tuple) {
    for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i)
      if (!equal(x->items[i], y->items[i], budget))
        return compare(x->items[i], y->items[i], budget);
    return order(x->items.size(), y->items.size());
  }
  throw TemplateError(describe(a) + " and " + describe(b) + " have no order");
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  budget.spend(Budget::kNode);
  if (const std::string* text = container.string()) {
    const std::string* part = item.string();
    if (part == nullptr) throw TemplateError(describe(item) + " is looked for in a string");
    budget.spend_search(text->size(), part->size());
    return text->find(*part) != std::string::npos;
  }
  if (const List* list = container.list())
    return std::ranges::any_of(list->items, [&](const Value& v) { return equal(v, item, budget); });
  if (const Dict* dict = container.dict()) {
    budget.spend(dict->items.size());
    return item.string() != nullptr && dict->find(*item.string()) != nullptr;
  }
  if (container.is_undefined()) return false;
  throw TemplateError("something is looked for in " + describe(container));
}

std::shared_ptr<const List> items_of(const Value& value, Budget& budget) {
  if (const auto* list = value.as<std::shared_ptr<const List>>()) return *list;
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) items.push_back(make_text(key, budget));
  } else if (const std::string* text = value.string()) {
    budget.spend(text->size() * Budget::kNode);
    for (const std::string_view c : characters(*text)) items.push_back(Value::text(std::string(c)));
  } else if (!value.is_undefined()) {
    throw TemplateError(describe(value) + " is not a sequence");
  }
  return *make_list(std::move(items), budget).as<std::shared_ptr<const List>>();
}

}  // namespace llmc::hosted::jinja
