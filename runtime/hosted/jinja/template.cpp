#include "runtime/hosted/jinja/template.h"

#include <nlohmann/json.hpp>

#include "runtime/hosted/jinja/evaluator.h"
#include "runtime/hosted/jinja/parser.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::jinja {
namespace {

constexpr std::size_t kMaxSource = std::size_t{1} << 20;
// Limit of work per rendering. Templates of real models use a few thousand units per message, plus
// a few times the length of the text.
constexpr std::size_t kUnits = std::size_t{1} << 25;

Failure failure(const std::string& name, const TemplateError& error) {
  std::string message = name;
  if (error.line > 0) message += ", line " + std::to_string(error.line);
  return {LLMC_ERROR_FORMAT, message + ": " + error.what()};
}

}  // namespace

struct Template::Tree {
  Body body;
};

Template::Template(std::string name, std::unique_ptr<const Tree> tree)
    : name_(std::move(name)), tree_(std::move(tree)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Outcome<Template> Template::parse(std::string_view source, std::string name) {
  if (source.size() > kMaxSource)
    return Failure{LLMC_ERROR_FORMAT, name + ": the template is too long"};
  for (std::string_view rest = source; !rest.empty();) {
    const std::size_t bytes = decode_utf8(rest).bytes;
    if (bytes == 0) return Failure{LLMC_ERROR_FORMAT, name + ": the template is not UTF-8"};
    rest.remove_prefix(bytes);
  }
  try {
    return Template(name, std::make_unique<const Tree>(Tree{parse_template(source)}));
  } catch (const TemplateError& error) {
    return failure(name, error);
  }
}

Outcome<std::string> Template::render(const nlohmann::ordered_json& variables,
                                      std::int64_t now) const {
  try {
    std::vector<std::pair<std::string, Value>> globals;
    for (const auto& [key, value] : variables.items())
      globals.emplace_back(key, Value::from_json(value));
    Budget budget(kUnits);
    return Evaluator(std::move(globals), now, budget).run(tree_->body);
  } catch (const TemplateError& error) {
    return failure(name_, error);
  }
}

}  // namespace llmc::hosted::jinja
