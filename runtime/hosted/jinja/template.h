#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted::jinja {

/// The subset of Jinja that chat templates use, with the whitespace rules of Hugging Face's
/// environment (trim_blocks, lstrip_blocks). docs/chat.md lists the features; everything else is
/// rejected with its name and line. Templates come from models, so their nesting, computation and
/// output are limited.
class Template {
 public:
  /// `name` identifies the template in messages. LLMC_ERROR_FORMAT if it is invalid.
  static Outcome<Template> parse(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Renders the template with these variables, an object. `now`: seconds since 1970, for
  /// strftime_now. LLMC_ERROR_FORMAT if the template rejects them or fails.
  Outcome<std::string> render(const nlohmann::ordered_json& variables, std::int64_t now) const;

 private:
  struct Tree;
  Template(std::string name, std::unique_ptr<const Tree> tree);

  std::string name_;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace llmc::hosted::jinja
