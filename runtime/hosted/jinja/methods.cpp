// Methods of strings, lists and dicts.
#include <algorithm>

#include "runtime/hosted/jinja/functions.h"
#include "runtime/hosted/jinja/strings.h"

namespace llmc::hosted::jinja {
namespace {

// The methods of all types that can be called.
constexpr std::string_view kMethods[] = {
    "capitalize",   "count",   "endswith", "find",   "get",    "index",
    "items",        "join",    "keys",     "lower",  "lstrip", "removeprefix",
    "removesuffix", "replace", "rsplit",   "rstrip", "split",  "splitlines",
    "startswith",   "strip",   "title",    "upper",  "values"};

// Attributes of Python's types, for object.NAME without a call. Methods that change a value are
// missing, as in the sandbox in which Hugging Face renders templates.
constexpr std::string_view kOfText[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};
constexpr std::string_view kOfDicts[] = {"copy", "fromkeys", "get", "items", "keys", "values"};
constexpr std::string_view kOfDictsChanging[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kOfTuples[] = {"count", "index"};
constexpr std::string_view kOfLists[] = {"copy", "count", "index"};

/// Returns a list of parts of a text.
Value texts(const std::vector<std::string_view>& parts, Budget& budget) {
  std::vector<Value> items;
  for (const std::string_view part : parts) items.push_back(make_text(std::string(part), budget));
  return make_list(std::move(items), budget);
}

/// Returns whether the text begins (or ends) with the argument, a string or a tuple of strings.
template <class Matches>
bool any_of(Arguments& arguments, Matches&& matches) {
  const Value& wanted = arguments.get(0, "prefix");
  arguments.finish(1);
  if (const std::string* text = wanted.string()) return matches(*text);
  if (const List* list = wanted.list(); list != nullptr && list->tuple) {
    return std::ranges::any_of(list->items, [&](const Value& item) {
      if (item.string() == nullptr) arguments.fail(describe(item) + " is not a string");
      return matches(*item.string());
    });
  }
  arguments.fail(describe(wanted) + " is neither a string nor a tuple of them");
}

std::optional<std::string> optional_text(Arguments& arguments, std::size_t index,
                                         std::string_view name) {
  const Value* value = arguments.find(index, name);
  if (value == nullptr || value->as<None>() != nullptr) return std::nullopt;
  return arguments.text(index, name);
}

Value text_method(const std::string& text, Arguments& arguments, Budget& budget) {
  const std::string& name = arguments.function();
  budget.spend(text.size());
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const auto chars = optional_text(arguments, 0, "chars");
    arguments.finish(1);
    const Side side = name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight;
    return make_text(std::string(strip(text, chars, side)), budget);
  }
  if (name == "split" || name == "rsplit") {
    const auto separator = optional_text(arguments, 0, "sep");
    const std::int64_t most = arguments.whole(1, "maxsplit", -1);
    arguments.finish(2);
    if (separator && separator->empty()) arguments.fail("the separator is empty");
    budget.spend(text.size() * 4);
    if (separator) budget.spend_search(text.size(), separator->size());
    return texts(split(text, separator, most, name == "rsplit"), budget);
  }
  if (name == "splitlines") {
    const bool keep_ends = arguments.flag(0, "keepends", false);
    arguments.finish(1);
    return texts(split_lines(text, keep_ends), budget);
  }
  if (name == "startswith")
    return Value(
        any_of(arguments, [&](const std::string& part) { return text.starts_with(part); }));
  if (name == "endswith")
    return Value(any_of(arguments, [&](const std::string& part) { return text.ends_with(part); }));
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string part = arguments.text(0, "part");
    arguments.finish(1);
    std::string_view rest = text;
    if (name == "removeprefix" && rest.starts_with(part)) rest.remove_prefix(part.size());
    if (name == "removesuffix" && rest.ends_with(part)) rest.remove_suffix(part.size());
    return make_text(std::string(rest), budget);
  }
  if (name == "find" || name == "index" || name == "count") {
    const std::string part = arguments.text(0, "sub");
    arguments.finish(1);
    budget.spend_search(text.size(), part.size());
    if (name != "count") {
      const std::size_t at = text.find(part);
      if (at == text.npos && name == "index") arguments.fail("the text is not there");
      if (at == text.npos) return Value(std::int64_t{-1});
      return Value(static_cast<std::int64_t>(characters(text.substr(0, at)).size()));
    }
    if (part.empty()) return Value(static_cast<std::int64_t>(characters(text).size() + 1));
    return Value(static_cast<std::int64_t>(split(text, part, -1, false).size()) - 1);
  }
  if (name == "join") {
    Arguments filter("join", {Value::text(text)}, {});
    const Value items = arguments.get(0, "iterable");
    arguments.finish(1);
    return apply_filter(items, std::move(filter), budget);
  }
  if (name == "title") {
    arguments.finish(0);
    if (!is_ascii(text)) throw TemplateError("title of text that is not ASCII is not supported");
    return make_text(title(text), budget);
  }
  for (const char* same : {"upper", "lower", "capitalize", "replace"})
    if (name == same) return apply_filter(Value::text(text), std::move(arguments), budget);
  throw TemplateError("the method '" + name + "' of strings is not supported");
}

Value dict_method(const Value& object, Arguments& arguments, Budget& budget) {
  const Dict& dict = *object.dict();
  const std::string& name = arguments.function();
  budget.spend(dict.items.size());
  if (name == "get") {
    const std::string key = arguments.text(0, "key");
    const Value* otherwise = arguments.find(1, "default");
    arguments.finish(2);
    if (const Value* found = dict.find(key)) return *found;
    return otherwise != nullptr ? *otherwise : Value(None{});
  }
  if (name != "items" && name != "keys" && name != "values")
    throw TemplateError("the method '" + name + "' of dicts is not supported");
  arguments.finish(0);
  if (name == "items") return apply_filter(object, Arguments("items", {}, {}), budget);
  if (name == "keys") return Value(items_of(object, budget));
  std::vector<Value> values;
  for (const auto& [key, value] : dict.items) values.push_back(value);
  return make_list(std::move(values), budget);
}

}  // namespace

bool is_method(std::string_view name) {
  return std::ranges::find(kMethods, name) != std::end(kMethods);
}

std::optional<Value> method_of(const Value& object, const std::string& name) {
  const auto has = [&](std::span<const std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  const List* list = object.list();
  if (object.dict() != nullptr && has(kOfDictsChanging)) return Value::undefined(name);
  const bool there = object.string() != nullptr ? has(kOfText)
                     : object.dict() != nullptr ? has(kOfDicts)
                     : list != nullptr          ? list->tuple ? has(kOfTuples) : has(kOfLists)
                                                : false;
  if (!there) return std::nullopt;
  return Value(Method{std::make_shared<const std::string>(name)});
}

Value call_method(const Value& object, Arguments arguments, Budget& budget) {
  budget.spend(Budget::kNode);
  const std::string& name = arguments.function();
  if (const std::string* text = object.string()) return text_method(*text, arguments, budget);
  if (object.dict() != nullptr) return dict_method(object, arguments, budget);
  if (const List* list = object.list(); list != nullptr && (name == "index" || name == "count")) {
    const Value wanted = arguments.get(0, "value");
    arguments.finish(1);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (!equal(list->items[i], wanted, budget)) continue;
      if (name == "index") return Value(static_cast<std::int64_t>(i));
      ++count;
    }
    if (name == "index") arguments.fail("the value is not in the list");
    return Value(count);
  }
  if (object.is_undefined())
    throw TemplateError("the method '" + name + "' is called on " + describe(object));
  throw TemplateError("the method '" + name + "' of " + describe(object) + " is not supported");
}

}  // namespace llmc::hosted::jinja
