#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/hosted/jinja/value.h"

/// The syntax tree of a template. The parser (parser.h) limits its depth.
namespace llmc::hosted::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  enum class Kind : std::uint8_t {
    kLiteral,      // value
    kName,         // name
    kList,         // children; name: "tuple" or nothing
    kDict,         // children: key, value, key, value, …
    kAttribute,    // children[0].name
    kIndex,        // children[0][children[1]]
    kSlice,        // children[0][children[1]:children[2]:children[3]]; the last three may be NULL
    kCall,         // children[0](children[1] …, keywords)
    kFilter,       // children[0]|name(children[1] …, keywords)
    kTest,         // children[0] is name(children[1] …)
    kUnary,        // name: "-", "+" or "not"
    kBinary,       // name: an operator, "and", "or"
    kCompare,      // children[0] operators[0] children[1] operators[1] children[2] …
    kConditional,  // children[0] if children[1] else children[2], which may be NULL
  };
  Kind kind = Kind::kLiteral;
  std::uint32_t line = 0;
  std::uint32_t depth = 1;
  Value value;
  std::string name;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

struct Statement {
  enum class Kind : std::uint8_t {
    kText,    // text
    kOutput,  // expression
    kIf,      // branches; the branch of `else` has no condition
    kFor,     // for targets in expression if condition (may be NULL): body; else: otherwise
    /// `targets` = `expression`. For an attribute of the namespace `text`: text.targets[0] =
    /// expression.
    kSet,
    kSetBlock,  // targets[0] = output of the body
    kMacro,     // macro `text` with the parameters `targets`, and body
    kGroup,     // body
    kBreak,
    kContinue,
  };
  struct Branch {
    ExpressionPtr condition;
    Body body;
  };
  Kind kind = Kind::kText;
  std::uint32_t line = 0;
  std::string text;
  ExpressionPtr expression, condition;
  std::vector<std::string> targets;
  std::vector<ExpressionPtr> defaults;  // default values of the last targets
  std::vector<Branch> branches;
  Body body, otherwise;
};

}  // namespace llmc::hosted::jinja
