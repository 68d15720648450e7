#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/hosted/jinja/ast.h"
#include "runtime/hosted/jinja/functions.h"

namespace llmc::hosted::jinja {

/// Renders a template's tree once. Throws TemplateError with the line of the innermost expression
/// that contains the error; errors outside expressions may have no line.
class Evaluator {
 public:
  /// `globals`: the variables of the template. `now`: seconds since 1970, for strftime_now.
  Evaluator(std::vector<std::pair<std::string, Value>> globals, std::int64_t now, Budget& budget);

  /// Returns the output of the body.
  std::string run(const Body& body);

 private:
  /// Variables of a loop iteration, a macro call or a set block, and the index of the enclosing
  /// frame.
  struct Frame {
    std::vector<std::pair<std::string, Value>> variables;
    std::size_t outer = 0;
  };
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  class Nested;
  class NewFrame;

  Flow statements(const Body& body);
  Flow statement(const Statement& statement);
  Flow for_loop(const Statement& statement);
  void set(const Statement& statement);
  void assign(const std::string& name, Value value);
  void assign_all(const std::vector<std::string>& names, const Value& value);
  void write(std::string_view text);
  /// Returns the output of `body` without writing it.
  std::string captured(const Body& body);

  Value evaluate(const Expression& expression);
  Value evaluate_kind(const Expression& expression);
  /// Returns the value of a part of an expression that may be missing (nullptr).
  Value optional(const ExpressionPtr& expression);
  Value name(const std::string& name);
  Value list(const Expression& expression);
  Value dict(const Expression& expression);
  Value call(const Expression& expression);
  Value call_macro(const Macro& macro, Arguments arguments);
  Value binary(const Expression& expression);
  bool comparison(const Expression& expression);
  Arguments arguments(const Expression& expression, std::string name);

  std::vector<Frame> frames_;  // the first frame belongs to the whole template
  const std::int64_t now_;
  Budget& budget_;
  std::uint32_t depth_ = 0;
  std::string out_;
};

}  // namespace llmc::hosted::jinja
