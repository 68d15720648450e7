#include <algorithm>

#include "runtime/hosted/jinja/evaluator.h"
#include "runtime/hosted/jinja/parser.h"

namespace llmc::hosted::jinja {
namespace {

// Maximum nesting of statements, expressions and macro calls. Each level takes several hundred
// bytes of stack.
constexpr std::uint32_t kMaxCalls = 400;

}  // namespace

class Evaluator::Nested {
 public:
  explicit Nested(Evaluator& evaluator) : evaluator_(evaluator) {
    if (++evaluator_.depth_ > kMaxCalls) {
      --evaluator_.depth_;
      throw TemplateError("calls itself too deeply");
    }
  }
  ~Nested() { --evaluator_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Evaluator& evaluator_;
};

/// A frame of variables that exists during a loop iteration or a macro call.
class Evaluator::NewFrame {
 public:
  explicit NewFrame(Evaluator& evaluator) : NewFrame(evaluator, evaluator.frames_.size() - 1) {}
  /// `outer`: the frame whose variables are also visible.
  NewFrame(Evaluator& evaluator, std::size_t outer) : evaluator_(evaluator) {
    evaluator.frames_.push_back({{}, outer});
  }
  ~NewFrame() { evaluator_.frames_.pop_back(); }
  NewFrame(const NewFrame&) = delete;
  NewFrame& operator=(const NewFrame&) = delete;

 private:
  Evaluator& evaluator_;
};

Evaluator::Evaluator(std::vector<std::pair<std::string, Value>> globals, std::int64_t now,
                     Budget& budget)
    : now_(now), budget_(budget) {
  frames_.push_back({std::move(globals), 0});
}

std::string Evaluator::run(const Body& body) {
  statements(body);
  return std::move(out_);
}

void Evaluator::write(std::string_view text) {
  budget_.spend(text.size());
  out_ += text;
}

std::string Evaluator::captured(const Body& body) {
  std::string outer = std::exchange(out_, {});
  statements(body);
  return std::exchange(out_, std::move(outer));
}

Evaluator::Flow Evaluator::statements(const Body& body) {
  for (const auto& s : body) {
    const Flow flow = statement(*s);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::statement(const Statement& s) {
  const Nested nested(*this);
  budget_.spend(Budget::kNode);
  switch (s.kind) {
    case Statement::Kind::kText:
      write(s.text);
      break;
    case Statement::Kind::kOutput:
      write(to_text(evaluate(*s.expression), budget_));
      break;
    case Statement::Kind::kIf:
      for (const Statement::Branch& branch : s.branches)
        if (!branch.condition || truthy(evaluate(*branch.condition)))
          return statements(branch.body);
      break;
    case Statement::Kind::kFor:
      return for_loop(s);
    case Statement::Kind::kSet:
      set(s);
      break;
    case Statement::Kind::kSetBlock: {
      std::string text;
      {
        const NewFrame frame(*this);
        text = captured(s.body);
      }
      assign(s.targets[0], make_text(std::move(text), budget_));
      break;
    }
    case Statement::Kind::kMacro:
      assign(s.text, Value(Macro{&s, frames_.size() - 1}));
      break;
    case Statement::Kind::kGroup:
      return statements(s.body);
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::for_loop(const Statement& s) {
  auto items = items_of(evaluate(*s.expression), budget_);
  if (s.condition) {
    std::vector<Value> kept;
    for (const Value& item : items->items) {
      const NewFrame frame(*this);
      assign_all(s.targets, item);
      if (truthy(evaluate(*s.condition))) kept.push_back(item);
    }
    items = *make_list(std::move(kept), budget_).as<std::shared_ptr<const List>>();
  }
  if (items->items.empty()) {
    const NewFrame frame(*this);
    return statements(s.otherwise);
  }
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    budget_.spend(Budget::kNode);
    const NewFrame frame(*this);
    assign_all(s.targets, items->items[i]);
    assign("loop", Value(std::make_shared<const Loop>(Loop{items, i})));
    if (statements(s.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Evaluator::set(const Statement& s) {
  Value value = evaluate(*s.expression);
  if (s.text.empty()) return assign_all(s.targets, value);
  const Value object = name(s.text);
  const auto* ns = object.as<std::shared_ptr<Namespace>>();
  if (ns == nullptr)
    throw TemplateError("an attribute of " + describe(object) + " is set, not of a namespace",
                        s.line);
  if (!value.is_plain()) throw TemplateError(describe(value) + " is put into a namespace", s.line);
  auto& attributes = (*ns)->attributes;
  budget_.spend(attributes.size());
  const auto known = std::ranges::find(attributes, s.targets[0],
                                       [](const auto& attribute) { return attribute.first; });
  if (known != attributes.end()) {
    known->second = std::move(value);
  } else {
    attributes.emplace_back(s.targets[0], std::move(value));
  }
}

void Evaluator::assign(const std::string& name, Value value) {
  auto& frame = frames_.back().variables;
  budget_.spend(frame.size());
  for (auto& [known, old] : frame) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  frame.emplace_back(name, std::move(value));
}

void Evaluator::assign_all(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return assign(names[0], value);
  const auto items = items_of(value, budget_);
  if (items->items.size() != names.size()) {
    throw TemplateError(std::to_string(items->items.size()) + " values are given to " +
                        std::to_string(names.size()) + " names");
  }
  for (std::size_t i = 0; i < names.size(); ++i) assign(names[i], items->items[i]);
}

Value Evaluator::call_macro(const Macro& called, Arguments arguments) {
  const Nested nested(*this);
  const Statement& macro = *called.statement;
  const NewFrame frame(*this, called.frame);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < macro.targets.size(); ++i) {
    const Value* given = arguments.find(i, macro.targets[i]);
    if (given == nullptr) missing.push_back(i);
    assign(macro.targets[i], given != nullptr ? *given : Value::undefined(macro.targets[i]));
  }
  arguments.finish(macro.targets.size());
  // Default values are evaluated in each call. Each expression can use all parameters; the
  // parameters before it already have their values.
  const std::size_t required = macro.targets.size() - macro.defaults.size();
  for (const std::size_t i : missing)
    if (i >= required) assign(macro.targets[i], evaluate(*macro.defaults[i - required]));
  return make_text(captured(macro.body), budget_);
}

// Expressions.

Value Evaluator::evaluate(const Expression& e) {
  const Nested nested(*this);
  budget_.spend(Budget::kNode);
  try {
    return evaluate_kind(e);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = e.line;
    throw;
  }
}

Value Evaluator::evaluate_kind(const Expression& e) {
  using enum Expression::Kind;
  switch (e.kind) {
    case kLiteral:
      return e.value;
    case kName:
      return name(e.name);
    case kList:
      return list(e);
    case kDict:
      return dict(e);
    case kAttribute:
      return attribute_of(evaluate(*e.children[0]), e.name, budget_);
    case kIndex: {
      const Value object = evaluate(*e.children[0]);
      return item_of(object, evaluate(*e.children[1]), budget_);
    }
    case kSlice: {
      const Value object = evaluate(*e.children[0]);
      const Value from = optional(e.children[1]), to = optional(e.children[2]);
      return slice_of(object, from, to, optional(e.children[3]), budget_);
    }
    case kCall:
      return call(e);
    case kFilter: {
      const Value value = evaluate(*e.children[0]);
      return apply_filter(value, arguments(e, e.name), budget_);
    }
    case kTest: {
      const Value value = evaluate(*e.children[0]);
      return Value(apply_test(value, arguments(e, e.name), budget_));
    }
    case kUnary: {
      const Value value = evaluate(*e.children[0]);
      if (e.name == "not") return Value(!truthy(value));
      return e.name == "-" ? negated(value)
                           : apply_operator("+", Value(std::int64_t{0}), value, budget_);
    }
    case kBinary:
      return binary(e);
    case kCompare:
      return Value(comparison(e));
    case kConditional:
      if (truthy(evaluate(*e.children[1]))) return evaluate(*e.children[0]);
      return optional(e.children[2]);
  }
  return {};
}

Value Evaluator::optional(const ExpressionPtr& expression) {
  return expression ? evaluate(*expression) : Value();
}

Value Evaluator::name(const std::string& name) {
  for (std::size_t i = frames_.size() - 1;; i = frames_[i].outer) {
    const auto& variables = frames_[i].variables;
    budget_.spend(variables.size());
    for (const auto& [known, value] : variables)
      if (known == name) return value;
    if (i == 0) break;
  }
  if (const char* builtin = builtin_named(name)) return Value(Builtin{builtin});
  return Value::undefined(name);
}

Value Evaluator::list(const Expression& e) {
  std::vector<Value> items;
  for (const ExpressionPtr& child : e.children) items.push_back(evaluate(*child));
  return e.name.empty() ? make_list(std::move(items), budget_)
                        : make_tuple(std::move(items), budget_);
}

Value Evaluator::dict(const Expression& e) {
  std::vector<std::pair<std::string, Value>> items;
  for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
    const Value key = evaluate(*e.children[i]);
    if (key.string() == nullptr)
      throw TemplateError("a dict's key is " + describe(key) + ", not a string");
    items.emplace_back(*key.string(), evaluate(*e.children[i + 1]));
  }
  return make_dict(std::move(items), budget_);
}

Arguments Evaluator::arguments(const Expression& e, std::string function) {
  std::vector<Value> positional;
  for (std::size_t i = 1; i < e.children.size(); ++i)
    positional.push_back(evaluate(*e.children[i]));
  std::vector<std::pair<std::string, Value>> named;
  for (const auto& [key, expression] : e.keywords) named.emplace_back(key, evaluate(*expression));
  return {std::move(function), std::move(positional), std::move(named)};
}

Value Evaluator::call(const Expression& e) {
  const Expression& callee = *e.children[0];
  if (callee.kind == Expression::Kind::kAttribute) {
    const Value object = evaluate(*callee.children[0]);
    return call_method(object, arguments(e, callee.name), budget_);
  }
  const Value function = evaluate(callee);
  if (const auto* macro = function.as<Macro>())
    return call_macro(*macro, arguments(e, macro->statement->text));
  if (const auto* builtin = function.as<Builtin>())
    return call_builtin(arguments(e, builtin->name), now_, budget_);
  throw TemplateError(callee.kind == Expression::Kind::kName && function.is_undefined()
                          ? "the function '" + callee.name + "' is not supported"
                          : describe(function) + " is called");
}

Value Evaluator::binary(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  if (e.name == "and") return truthy(left) ? evaluate(*e.children[1]) : left;
  if (e.name == "or") return truthy(left) ? left : evaluate(*e.children[1]);
  return apply_operator(e.name, left, evaluate(*e.children[1]), budget_);
}

bool Evaluator::comparison(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    Value right = evaluate(*e.children[i + 1]);
    const std::string& op = e.operators[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equal(left, right, budget_) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(right, left, budget_) == (op == "in");
    } else {
      const int order = compare(left, right, budget_);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace llmc::hosted::jinja
