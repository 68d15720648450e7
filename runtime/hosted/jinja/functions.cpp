#include "runtime/hosted/jinja/functions.h"

#include <algorithm>
#include <ctime>

#include "runtime/hosted/jinja/parser.h"

namespace llmc::hosted::jinja {
namespace {

constexpr const char* kBuiltins[] = {"range", "namespace", "dict", "raise_exception",
                                     "strftime_now"};
constexpr std::int64_t kMaxRange = 100'000;

Value range(Arguments& arguments, Budget& budget) {
  std::int64_t from = 0, to = 0, step = 1;
  if (arguments.positional() == 1) {
    to = arguments.whole(0, "stop", 0);
  } else {
    from = arguments.whole(0, "start", 0);
    to = arguments.whole(1, "stop", 0);
    step = arguments.whole(2, "step", 1);
  }
  arguments.finish(3);
  for (const std::int64_t value : {from, to, step})
    if (value > kMaxRange || value < -kMaxRange) arguments.fail("a number is too large");
  if (step == 0) arguments.fail("the step is 0");
  std::vector<Value> items;
  for (std::int64_t i = from; step > 0 ? i < to : i > to; i += step) {
    budget.spend(Budget::kNode);
    items.emplace_back(i);
  }
  return make_list(std::move(items), budget);
}

Value strftime_now(Arguments& arguments, std::int64_t now, Budget& budget) {
  const std::string format = arguments.text(0, "format");
  arguments.finish(1);
  if (format.size() > 200) arguments.fail("the format is too long");
  if (format.empty()) return Value::text({});
  const auto time = static_cast<std::time_t>(now);
  std::tm local{};
  if (::localtime_r(&time, &local) == nullptr) arguments.fail("the time is out of range");
  char buffer[4096];
  const std::size_t bytes = std::strftime(buffer, sizeof buffer, format.c_str(), &local);
  return make_text(std::string(buffer, bytes), budget);
}

}  // namespace

const char* builtin_named(std::string_view name) {
  const auto it =
      std::ranges::find(kBuiltins, name, [](const char* n) { return std::string_view(n); });
  return it == std::end(kBuiltins) ? nullptr : *it;
}

const Value* Arguments::find(std::size_t index, std::string_view name) {
  if (index < positional_.size()) return &positional_[index];
  for (std::size_t i = 0; i < named_.size(); ++i) {
    if (named_[i].first != name) continue;
    used_[i] = true;
    return &named_[i].second;
  }
  return nullptr;
}

const Value& Arguments::get(std::size_t index, std::string_view name) {
  const Value* value = find(index, name);
  if (value == nullptr) fail("the argument '" + std::string(name) + "' is missing");
  return *value;
}

std::string Arguments::text(std::size_t index, std::string_view name) {
  const Value& value = get(index, name);
  if (value.string() == nullptr)
    fail("'" + std::string(name) + "' is " + describe(value) + ", not a string");
  return *value.string();
}

std::int64_t Arguments::whole(std::size_t index, std::string_view name, std::int64_t otherwise) {
  const Value* value = find(index, name);
  if (value == nullptr) return otherwise;
  if (const auto* number = value->as<std::int64_t>()) return *number;
  fail("'" + std::string(name) + "' is " + describe(*value) + ", not a whole number");
}

bool Arguments::flag(std::size_t index, std::string_view name, bool otherwise) {
  const Value* value = find(index, name);
  return value == nullptr ? otherwise : truthy(*value);
}

void Arguments::finish(std::size_t max_positional) const {
  if (positional_.size() > max_positional) fail("too many arguments");
  for (std::size_t i = 0; i < named_.size(); ++i)
    if (!used_[i]) fail("the argument '" + named_[i].first + "' is not supported");
}

std::vector<std::pair<std::string, Value>> Arguments::take_named() {
  used_.assign(named_.size(), true);
  return named_;
}

void Arguments::fail(const std::string& what) const {
  throw TemplateError(function_ + ": " + what);
}

Value call_builtin(Arguments arguments, std::int64_t now, Budget& budget) {
  const std::string& name = arguments.function();
  if (name == "range") return range(arguments, budget);
  if (name == "strftime_now") return strftime_now(arguments, now, budget);
  if (name == "raise_exception") {
    const std::string message = to_text(arguments.get(0, "message"), budget);
    throw TemplateError("the template refuses the conversation: " + message.substr(0, 400));
  }
  auto named = arguments.take_named();
  if (arguments.positional() > 1) arguments.fail("too many arguments");
  if (arguments.positional() == 1) {
    const Dict* given = arguments.all()[0].dict();
    if (given == nullptr) arguments.fail("takes a dict");
    named.insert(named.begin(), given->items.begin(), given->items.end());
  }
  const Value dict = make_dict(std::move(named), budget);
  if (name == "dict") return dict;
  return Value(std::make_shared<Namespace>(Namespace{dict.dict()->items}));
}

}  // namespace llmc::hosted::jinja
