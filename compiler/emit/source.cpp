#include "compiler/emit/source.h"

#include <fmt/format.h>

#include "compiler/emit/run_entry.h"
#include "compiler/emit/session_entry.h"
#include "compiler/emit/wrap.h"
#include "compiler/support/counted.h"

namespace llmc::emit {
namespace {

using plan::Plan;

/// Returns the comment that describes the program.
std::string summary(const Plan& plan) {
  const plan::Program& program = plan.program;
  const std::string begin = fmt::format("// {} for {}, written by llmc {}", plan.options.name,
                                        target::described(*plan.options.target), kCompilerVersion);
  if (program.is_plain())
    return fmt::format("{}: {}, {} bytes of arena.\n", begin,
                       counted(program.forward.size(), "stage"), plan.arena_bytes);
  return fmt::format(
      "{}.\n// {}, hidden {}, {} query heads, {} KV heads, head_dim {}, vocabulary {}.\n", begin,
      counted(program.layers, "layer"), program.hidden_width, program.attention.heads,
      program.attention.kv_heads, program.attention.head_dim, program.vocabulary);
}

/// Returns the declaration of embedded weights; empty if there are none.
std::string weights_declaration(const Plan& plan) {
  if (plan.weights_bytes == 0 || !plan.options.embed_weights) return {};
  return fmt::format(
      "\nextern \"C\" __attribute__((visibility(\"hidden\")))\n"
      "const unsigned char {}_weights[{}];\n",
      plan.options.name, plan.weights_bytes);
}

}  // namespace

std::string model_source(const Plan& plan, std::uint64_t weights_hash) {
  const bool plain = plan.program.is_plain();
  const Plan* const plans[] = {&plan};
  return wrapped(summary(plan) + "// build.sh beside this file rebuilds the library.\n\n" +
                 fmt::format("#include \"{}.h\"\n", plan.options.name) +
                 (plain ? run_includes(plans) : session_includes(plan)) +
                 weights_declaration(plan) +
                 (plain ? run_entry(plan, weights_hash) : session_entry(plan, weights_hash)));
}

}  // namespace llmc::emit
