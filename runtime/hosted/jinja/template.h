#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted::jinja {

/// A template in the subset of Jinja that chat templates use, with the whitespace rules of Hugging
/// Face's environment (trim_blocks, lstrip_blocks). docs/chat.md lists the supported features; a
/// template with any other feature is rejected when it is parsed or rendered, and the message
/// states its name and, if known, line. Templates come from models, so their nesting, computation
/// and output are limited.
class Template {
 public:
  /// Parses a template. `name` is its name in messages. Fails with LLMC_ERROR_FORMAT if it is
  /// invalid.
  static Outcome<Template> parse(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Renders the template. `variables` is an object. `now`: seconds since 1970, for strftime_now.
  /// Fails with LLMC_ERROR_FORMAT if the template rejects the variables or fails.
  Outcome<std::string> render(const nlohmann::ordered_json& variables, std::int64_t now) const;

 private:
  struct Tree;
  Template(std::string name, std::unique_ptr<const Tree> tree);

  std::string name_;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace llmc::hosted::jinja
