#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/hosted/jinja/functions.h"
#include "runtime/hosted/jinja/parser.h"
#include "runtime/hosted/jinja/strings.h"

namespace llmc::hosted::jinja {
namespace {

using Filter = Value (*)(const Value& value, Arguments& arguments, Budget& budget);

/// Returns whether an argument is missing, or is Python's None.
bool is_none(const Value* value) {
  return value == nullptr || value->as<None>() != nullptr;
}

/// Returns `text`. Throws if it is not ASCII, for operations that are implemented only for ASCII.
const std::string& ascii(const std::string& text, const char* what) {
  if (!is_ascii(text))
    throw TemplateError(std::string(what) + " of text that is not ASCII is not supported");
  return text;
}

template <std::string (*function)(std::string_view)>
Value letters(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  const std::string text = to_text(value, budget);
  return make_text(function(ascii(text, arguments.function().c_str())), budget);
}

Value trim(const Value& value, Arguments& arguments, Budget& budget) {
  const Value* chars = arguments.find(0, "chars");
  const bool given = chars != nullptr && chars->as<None>() == nullptr;
  const std::string wanted = given ? arguments.text(0, "chars") : std::string();
  arguments.finish(1);
  const std::string text = to_text(value, budget);
  return make_text(
      std::string(
          strip(text, given ? std::optional<std::string_view>(wanted) : std::nullopt, Side::kBoth)),
      budget);
}

Value length(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  std::size_t n = 0;
  if (const std::string* text = value.string()) {
    budget.spend(text->size());
    n = characters(*text).size();
  } else if (const Dict* dict = value.dict()) {
    n = dict->items.size();
  } else {
    n = items_of(value, budget)->items.size();
  }
  return Value(static_cast<std::int64_t>(n));
}

Value default_(const Value& value, Arguments& arguments, Budget&) {
  const Value* given = arguments.find(0, "default_value");
  const bool falsy_too = arguments.flag(1, "boolean", false);
  const Value otherwise = given != nullptr ? *given : Value::text({});
  arguments.finish(2);
  return value.is_undefined() || (falsy_too && !truthy(value)) ? otherwise : value;
}

Value first(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  const auto items = items_of(value, budget);
  return items->items.empty() ? Value::undefined("the first item of nothing")
                              : items->items.front();
}
Value last(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  const auto items = items_of(value, budget);
  return items->items.empty() ? Value::undefined("the last item of nothing") : items->items.back();
}

/// Evaluates value.a.b if the text is "a.b": each part as value['a'], a whole number as an index.
Value dotted(const Value& value, const Value& path, Budget& budget) {
  if (path.as<std::int64_t>() != nullptr) return item_of(value, path, budget);
  if (path.string() == nullptr) throw TemplateError("an attribute's name is " + describe(path));
  Value at = value;
  for (const std::string_view part : split(*path.string(), ".", -1, false)) {
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool whole = error == std::errc{} && end == part.data() + part.size();
    at = item_of(at, whole ? Value(index) : Value::text(std::string(part)), budget);
  }
  return at;
}

Value join(const Value& value, Arguments& arguments, Budget& budget) {
  const Value* separator = arguments.find(0, "d");
  const Value* attribute = arguments.find(1, "attribute");
  const std::string between = separator != nullptr ? to_text(*separator, budget) : std::string();
  arguments.finish(2);
  std::string text;
  bool begun = false;
  const auto source = items_of(value, budget);  // a copy of the items of a text or dict
  for (const Value& item : source->items) {
    budget.spend(between.size() + 1);
    if (begun) text += between;
    begun = true;
    text += to_text(attribute != nullptr ? dotted(item, *attribute, budget) : item, budget);
  }
  return make_text(std::move(text), budget);
}

/// Implements Hugging Face's tojson, with its order of arguments.
Value tojson(const Value& value, Arguments& arguments, Budget& budget) {
  JsonStyle style;
  style.ascii = arguments.flag(0, "ensure_ascii", false);
  if (const Value* given = arguments.find(1, "indent"); !is_none(given)) {
    constexpr std::int64_t kMaxIndent = 100;
    const bool* flag = given->as<bool>();
    if (given->string() != nullptr) {
      style.indent = *given->string();
    } else {
      const std::int64_t blanks = flag != nullptr ? *flag : arguments.whole(1, "indent", 0);
      if (blanks > kMaxIndent) arguments.fail("an indent of more than 100 is not supported");
      style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(blanks, 0)), ' ');
    }
    style.between = ",";
  }
  if (const Value* given = arguments.find(2, "separators"); !is_none(given)) {
    const List* pair = given->list();
    if (pair == nullptr || pair->items.size() != 2 || pair->items[0].string() == nullptr ||
        pair->items[1].string() == nullptr)
      arguments.fail("'separators' is not two strings");
    style.between = *pair->items[0].string();
    style.after_key = *pair->items[1].string();
  }
  style.sorted = arguments.flag(3, "sort_keys", false);
  arguments.finish(4);
  return Value::text(to_json(value, style, budget));
}

Value list(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  return make_list(items_of(value, budget)->items, budget);
}
Value string(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  return Value::text(to_text(value, budget));
}
Value safe(const Value& value, Arguments& arguments, Budget&) {
  arguments.finish(0);
  return value;
}

Value int_(const Value& value, Arguments& arguments, Budget&) {
  const Value* given = arguments.find(0, "default");
  const std::int64_t base = arguments.whole(1, "base", 10);
  arguments.finish(2);
  if (value.is_undefined()) arguments.fail(describe(value) + " is not a number");
  if (const auto* whole = value.as<std::int64_t>()) return Value(*whole);
  if (const bool* flag = value.as<bool>()) return Value(static_cast<std::int64_t>(*flag));
  if (const double* number = value.as<double>(); number != nullptr && !std::isnan(*number)) {
    if (!(std::fabs(*number) < 9223372036854775808.0)) arguments.fail("the number is too large");
    return Value(static_cast<std::int64_t>(*number));
  }
  if (const std::string* text = value.string())
    if (const auto whole = whole_number(*text, base)) return Value(*whole);
  return given != nullptr ? *given : Value(std::int64_t{0});
}

Value replace_(const Value& value, Arguments& arguments, Budget& budget) {
  const std::string from = to_text(arguments.get(0, "old"), budget);
  const std::string to = to_text(arguments.get(1, "new"), budget);
  const std::int64_t most = arguments.whole(2, "count", -1);
  arguments.finish(3);
  const std::string text = to_text(value, budget);
  auto result = replace(text, from, to, most, std::size_t{64} << 20);
  if (!result) arguments.fail("the text becomes too long");
  return make_text(*std::move(result), budget);
}

Value pairs(const Dict& dict, Budget& budget) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items)
    items.push_back(make_tuple({make_text(key, budget), value}, budget));
  return make_list(std::move(items), budget);
}

Value items(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  if (value.is_undefined()) return make_list({}, budget);
  if (value.dict() == nullptr) arguments.fail(describe(value) + " has no items");
  return pairs(*value.dict(), budget);
}

Value dictsort(const Value& value, Arguments& arguments, Budget& budget) {
  const bool exact = arguments.flag(0, "case_sensitive", false);
  arguments.finish(1);
  if (value.dict() == nullptr) arguments.fail(describe(value) + " is not a dict");
  const auto& items = value.dict()->items;
  budget.spend(items.size() * Budget::kNode);
  // Stable sort: items with equal keys keep their order.
  std::vector<std::pair<std::string, std::size_t>> order;
  for (std::size_t i = 0; i < items.size(); ++i) {
    budget.spend(items[i].first.size());
    order.emplace_back(exact ? items[i].first : lower(ascii(items[i].first, "dictsort")), i);
  }
  std::ranges::sort(order);
  Dict sorted;
  for (const auto& [key, i] : order) sorted.items.push_back(items[i]);
  return pairs(sorted, budget);
}

Value indent(const Value& value, Arguments& arguments, Budget& budget) {
  std::string blanks;
  const Value* width = arguments.find(0, "width");
  if (width != nullptr && width->string() != nullptr) {
    blanks = *width->string();
  } else {
    const std::int64_t count = arguments.whole(0, "width", 4);
    if (count < 0 || count > 100) arguments.fail("the width is not between 0 and 100");
    blanks.assign(static_cast<std::size_t>(count), ' ');
  }
  const bool first_too = arguments.flag(1, "first", false);
  const bool blank_too = arguments.flag(2, "blank", false);
  arguments.finish(3);
  const std::string text = to_text(value, budget) + "\n";
  std::string result;
  bool begun = false;
  for (const std::string_view line : split_lines(text)) {
    budget.spend(blanks.size() + line.size() + 1);
    if (begun) result += '\n';
    if (begun ? blank_too || !line.empty() : first_too) result += blanks;
    begun = true;
    result += line;
  }
  return make_text(std::move(result), budget);
}

Value reverse(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(0);
  if (value.string() != nullptr) return slice_of(value, {}, {}, Value(std::int64_t{-1}), budget);
  std::vector<Value> items = items_of(value, budget)->items;
  std::ranges::reverse(items);
  return make_list(std::move(items), budget);
}

/// Returns the name of the filter or test that a filter applies, and the arguments for it, which
/// come after the first `skip`.
Arguments inner(Arguments& arguments, std::size_t skip, const char* what,
                bool (*known)(std::string_view)) {
  const std::string name = arguments.text(skip, what);
  if (!known(name)) arguments.fail(std::string("the ") + what + " '" + name + "' is not supported");
  const auto& all = arguments.all();
  std::vector<Value> rest(all.begin() + static_cast<std::ptrdiff_t>(skip) + 1, all.end());
  return {name, std::move(rest), {}};
}

Value map(const Value& value, Arguments& arguments, Budget& budget) {
  std::vector<Value> result;
  const auto source = items_of(value, budget);
  if (const Value* path = arguments.positional() == 0 ? arguments.find(0, "attribute") : nullptr) {
    const Value* otherwise = arguments.find(1, "default");
    arguments.finish(0);
    for (const Value& item : source->items) {
      Value found = dotted(item, *path, budget);
      result.push_back(found.is_undefined() && otherwise != nullptr ? *otherwise
                                                                    : std::move(found));
    }
  } else {
    const Arguments other = inner(arguments, 0, "filter", is_filter);
    arguments.finish(SIZE_MAX);
    for (const Value& item : source->items) result.push_back(apply_filter(item, other, budget));
  }
  return make_list(std::move(result), budget);
}

/// Implements select, reject, selectattr and rejectattr.
template <bool kAttribute, bool kWanted>
Value filtered(const Value& value, Arguments& arguments, Budget& budget) {
  arguments.finish(SIZE_MAX);
  if (kAttribute) arguments.get(0, "attribute");
  const std::size_t at = kAttribute ? 1 : 0;
  std::vector<Value> result;
  const auto source = items_of(value, budget);
  for (const Value& item : source->items) {
    const Value subject = kAttribute ? dotted(item, arguments.all()[0], budget) : item;
    const bool holds = arguments.positional() == at
                           ? truthy(subject)
                           : apply_test(subject, inner(arguments, at, "test", is_test), budget);
    if (holds == kWanted) result.push_back(item);
  }
  return make_list(std::move(result), budget);
}

// Filters that apply other filters also accept the arguments of these.
constexpr std::string_view kAny = "*";

struct FilterEntry {
  std::string_view name;
  Filter filter;
  std::string_view parameters = {};  // names of the parameters, each followed by a comma; or kAny
};
constexpr FilterEntry kFilters[] = {
    {"capitalize", letters<capitalize>},
    {"count", length},
    {"d", default_, "default_value,boolean,"},
    {"default", default_, "default_value,boolean,"},
    {"dictsort", dictsort, "case_sensitive,"},
    {"first", first},
    {"indent", indent, "width,first,blank,"},
    {"int", int_, "default,base,"},
    {"items", items},
    {"join", join, "d,attribute,"},
    {"last", last},
    {"length", length},
    {"list", list},
    {"lower", letters<lower>},
    {"map", map, kAny},
    {"reject", filtered<false, false>, kAny},
    {"rejectattr", filtered<true, false>, kAny},
    {"replace", replace_, "old,new,count,"},
    {"reverse", reverse},
    {"safe", safe},
    {"select", filtered<false, true>, kAny},
    {"selectattr", filtered<true, true>, kAny},
    {"string", string},
    {"title", letters<title_words>},
    {"tojson", tojson, "ensure_ascii,indent,separators,sort_keys,"},
    {"trim", trim, "chars,"},
    {"upper", letters<upper>},
};

const FilterEntry* filter_named(std::string_view name) {
  const auto it = std::ranges::find(kFilters, name, &FilterEntry::name);
  return it == std::end(kFilters) ? nullptr : it;
}

}  // namespace

bool is_filter(std::string_view name) {
  return filter_named(name) != nullptr;
}

std::string filter_misuse(std::string_view name, std::size_t positional,
                          std::span<const std::string_view> keywords) {
  const std::string_view parameters = filter_named(name)->parameters;
  if (parameters == kAny) return {};
  if (positional > static_cast<std::size_t>(std::ranges::count(parameters, ',')))
    return std::string(name) + ": too many arguments";
  const std::string all = "," + std::string(parameters);
  for (const std::string_view keyword : keywords)
    if (all.find("," + std::string(keyword) + ",") == all.npos)
      return std::string(name) + ": the argument '" + std::string(keyword) + "' is not supported";
  return {};
}

Value apply_filter(const Value& value, Arguments arguments, Budget& budget) {
  budget.spend(Budget::kNode);
  return filter_named(arguments.function())->filter(value, arguments, budget);
}

}  // namespace llmc::hosted::jinja
