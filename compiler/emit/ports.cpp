#include "compiler/emit/ports.h"

#include <fmt/format.h>

#include <map>

#include "compiler/emit/dim_names.h"
#include "compiler/emit/names.h"

namespace llmc::emit {
namespace {

/// Returns a C string literal for arbitrary bytes.
std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\' && c != '?';
    out += plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
  }
  return out + "\"";
}

/// Returns the macros of one input or output.
std::string macros_of(const std::string& macro, std::string_view what, std::size_t index,
                      const plan::Port& port, const DimNames& dims,
                      std::map<std::string, int>& taken) {
  const std::string prefix = fmt::format("{}_{}_{}", macro, what, index);
  std::vector<std::string> sizes;
  for (const plan::Size& size : port.dims) sizes.push_back(dims.plain_text(size));
  std::string text =
      fmt::format("\n/* {} {}: {} {}[{}]{} */\n", what == "INPUT" ? "input" : "output", index,
                  comment_text(port.name), ir::to_string(port.element), fmt::join(sizes, ", "),
                  plan::all_constant(port.dims) ? "" : "; _DIMS and _BYTES: at most");
  std::string word;
  for (const char c : port.name.substr(0, 48)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    word += letter ? static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c) : '_';
  }
  const bool starts_well = !word.empty() && (word[0] >= 'A' && word[0] <= 'Z');
  if (starts_well) {
    const std::string stem = fmt::format("{}_{}_{}", macro, what, word);
    std::string by_name = stem;
    // `taken` stores the next suffix of each name, so that many ports with the same name need few
    // steps each.
    while (!taken.emplace(by_name, 2).second) by_name = fmt::format("{}_{}", stem, taken[stem]++);
    text += fmt::format("#define {} {}\n", by_name, index);
  }
  text += fmt::format("#define {}_NAME {}\n", prefix, c_string(port.name));
  text += fmt::format("#define {}_TYPE \"{}\"\n", prefix, ir::to_string(port.element));
  text += fmt::format("#define {}_RANK {}\n", prefix, port.dims.size());
  if (!port.dims.empty())
    text +=
        fmt::format("#define {}_DIMS {{{}}}\n", prefix, fmt::join(plan::bounds(port.dims), ", "));
  return text + fmt::format("#define {}_BYTES {}\n", prefix, port.bytes());
}

/// Returns the macros of the open dims that a call sets; empty if there are none.
std::string dim_macros(const plan::Program& program, const DimNames& dims, const std::string& macro,
                       std::string_view where) {
  const auto& open = program.open_dims;
  if (open.empty()) return {};
  std::string text = fmt::format(
      "\n/* Sizes that a call gives{}, in this order. */\n"
      "#define {}_DIMS {}\n",
      where, macro, open.size());
  for (std::size_t i = 0; i < open.size(); ++i)
    text += fmt::format(
        "#define {0}_DIM_{1} {2}\n"
        "#define {0}_DIM_{2}_NAME {3}\n"
        "#define {0}_DIM_{2}_MIN {4}\n"
        "#define {0}_DIM_{2}_MAX {5}\n",
        macro, macro_name(dims.identifiers()[i]), i, c_string(open[i]->name), open[i]->range.min,
        open[i]->range.max);
  return text;
}

/// Returns the macros of all inputs. `taken`: names of macros in use.
std::string all_input_macros(const plan::Program& program, const DimNames& dims,
                             const std::string& macro, std::map<std::string, int> taken = {}) {
  std::string text;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    text += macros_of(macro, "INPUT", i, program.inputs[i], dims, taken);
  return text;
}

}  // namespace

std::string input_macros(const plan::Program& program, const std::string& prefix) {
  const DimNames dims(program);
  return fmt::format("#define {}_INPUTS {}\n", prefix, program.inputs.size()) +
         dim_macros(program, dims, prefix, "") + all_input_macros(program, dims, prefix);
}

std::string port_macros(const plan::Program& program, const std::string& macro) {
  const DimNames dims(program);
  std::string text = dim_macros(program, dims, macro, ": llmc_run_options::dims") +
                     all_input_macros(program, dims, macro, {{macro + "_INPUT_WEIGHTS", 2}});
  std::map<std::string, int> taken;
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    text += macros_of(macro, "OUTPUT", i, program.outputs[i], dims, taken);
  return text;
}

}  // namespace llmc::emit
