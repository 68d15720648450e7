#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted::jinja {

/// Jinja as far as chat templates use it, with the whitespace rules of Hugging Face's environment
/// (trim_blocks, lstrip_blocks). docs/chat.md lists what there is; everything else is refused by
/// name and line. Templates come out of models: what they may nest, compute and write is bounded.
class Template {
 public:
  /// `name` is whose template it is, for messages. LLMC_ERROR_FORMAT.
  static Outcome<Template> parse(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// The text it writes for these variables, an object. `now`: seconds since 1970, for
  /// strftime_now. LLMC_ERROR_FORMAT when it refuses them or does what cannot be done.
  Outcome<std::string> render(const nlohmann::ordered_json& variables, std::int64_t now) const;

 private:
  struct Tree;
  Template(std::string name, std::unique_ptr<const Tree> tree);

  std::string name_;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace llmc::hosted::jinja
