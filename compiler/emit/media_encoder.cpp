#include "compiler/emit/media_encoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/emit/dim_names.h"
#include "compiler/emit/loop_nests.h"
#include "compiler/emit/names.h"
#include "compiler/emit/ports.h"
#include "compiler/support/identifier.h"

namespace llmc::emit {
namespace {

using plan::Plan;

/// Returns the C type of an element of an input. 16-bit floats are bit patterns in a uint16_t.
std::string_view c_type(ir::ElementType element) {
  const bool half = element == ir::ElementType::kF16 || element == ir::ElementType::kBF16;
  return half ? "uint16_t" : stored_type(element);
}

/// Returns names for the parameters of NAME_encode_image that are the encoder's inputs. They
/// resemble the inputs' names and are unique.
std::vector<std::string> input_names(const plan::Program& program) {
  std::vector<std::string> names{"session", "rows", "row_count", "inputs", "dims"};
  const std::size_t own = names.size();
  for (const plan::Port& port : program.inputs) {
    std::string stem = resembling_identifier(port.name);
    if (stem.empty() || stem.starts_with("n_") || !check_name(stem).ok()) stem = "input";
    names.push_back(numbered(stem, [&](const std::string& name) {
      return std::ranges::find(names, name) == names.end();
    }));
  }
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(own));
  return names;
}

/// Returns "image" or "audio".
std::string_view kind_of(const Plan& plan) {
  return plan.options.media.is_sound() ? "audio" : "image";
}

/// Returns the declaration of NAME_encode_image or NAME_encode_audio without a semicolon.
std::string signature(const Plan& plan) {
  const plan::Program& program = plan.media_encoder->program;
  const std::vector<std::string> names = input_names(program);
  std::string parameters;
  for (std::size_t i = 0; i < names.size(); ++i)
    parameters += fmt::format("{}const {}* {},", i == 0 ? "" : " ",
                              c_type(program.inputs[i].element), names[i]);
  const DimNames dims(program);
  for (std::size_t i = 0; i < program.open_dims.size(); ++i)
    parameters += fmt::format(" int64_t {},", DimNames::variable(dims.identifiers()[i]));
  return fmt::format(
      "llmc_status {}_encode_{}(llmc_session* session,\n"
      "    {}\n    float* rows, size_t* row_count)",
      plan.options.name, kind_of(plan), parameters);
}

}  // namespace

std::string encode_image_function(const Plan& plan) {
  if (!plan.media_encoder) return {};
  const Plan& encoder = *plan.media_encoder;
  const plan::Program& program = encoder.program;
  const DimNames names(program);
  std::string inputs, sizes;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) inputs += fmt::format("inputs[{}], ", i);
  for (std::size_t i = 0; i < program.open_dims.size(); ++i)
    sizes +=
        fmt::format("  [[maybe_unused]] const int64_t {} = dims == nullptr ? {} : dims[{}];\n",
                    DimNames::variable(names.identifiers()[i]), program.open_dims[i]->range.max, i);
  return fmt::format(
      "\n/// Runs the image encoder and stores its rows, f32[rows][{width}].\n"
      "uint32_t encode_image(const llmc_run* run, const void* const* inputs,\n"
      "                      [[maybe_unused]] const int64_t* dims, float* rows) {{\n"
      "  const void* const all[] = {{{inputs}run->weights + {weights}}};\n"
      "  void* const outputs[] = {{rows}};\n"
      "  const llmc_run_options options{{sizeof options, run->threads,\n"
      "                                 run->uneven ? LLMC_CORES_UNEVEN : LLMC_CORES_EVEN,\n"
      "                                 run->parallel_for, run->user, dims}};\n"
      "  if ({name}_function::{name}_run_with(all, outputs, run->scratch, &options) != 0) return "
      "0;\n"
      "{sizes}{quotients}"
      "  return static_cast<uint32_t>({rows});\n"
      "}}\n",
      fmt::arg("width", program.outputs.front().dims.back().bound()), fmt::arg("inputs", inputs),
      fmt::arg("weights", plan.weights_bytes - encoder.weights_bytes),
      fmt::arg("name", encoder.options.name), fmt::arg("sizes", sizes),
      fmt::arg("quotients", names.quotient_lines()),
      fmt::arg("rows", names.text(plan::image_rows(encoder))));
}

std::string image_sizes(const Plan& plan) {
  if (!plan.media_encoder) return {};
  return fmt::format(
      "    .image_inputs = {},\n"
      "    .image_dims = {},\n"
      "    .image_rows = {}_{}_ROWS,\n",
      plan.media_encoder->program.inputs.size(), plan.media_encoder->program.open_dims.size(),
      macro_name(plan.options.name), macro_name(kind_of(plan)));
}

std::string image_declarations(const Plan& plan) {
  if (!plan.media_encoder) return {};
  const Plan& encoder = *plan.media_encoder;
  const std::string macro = macro_name(plan.options.name);
  const DimNames dims(encoder.program);
  const plan::Size rows = plan::image_rows(encoder);
  const std::string kind = macro_name(kind_of(plan));
  return fmt::format(
      "/* {7}: a call of the encoder computes {1} rows of {0}_EMBEDDING_WIDTH elements. */\n"
      "#define {0}_{6}_ROWS {2}u{5}\n"
      "{3}\n"
      "/* Computes the rows of {8}, float[{0}_{6}_ROWS][{0}_EMBEDDING_WIDTH], and their "
      "number,\n"
      "   for llmc_append_embeddings; see llmc_encode_image. row_count may be NULL. */\n"
      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
      "{4};\n\n",
      macro, dims.plain_text(rows), rows.bound(), input_macros(encoder.program, macro + "_" + kind),
      signature(plan), rows.is_constant() ? "" : " /* maximum */", kind,
      plan.options.media.is_sound() ? "Sounds" : "Images",
      plan.options.media.is_sound() ? "sounds" : "images");
}

std::string encode_image_definition(const Plan& plan) {
  if (!plan.media_encoder) return {};
  const plan::Program& program = plan.media_encoder->program;
  const DimNames names(program);
  std::string sizes;
  for (std::size_t i = 0; i < program.open_dims.size(); ++i)
    sizes += (i > 0 ? ", " : "") + DimNames::variable(names.identifiers()[i]);
  const bool has_dims = !sizes.empty();
  return fmt::format(
      "\n{} {{\n"
      "  const void* const inputs[] = {{{}}};\n"
      "{}"
      "  return llmc_encode_image(session, inputs, {}, rows, row_count);\n"
      "}}\n",
      signature(plan), fmt::join(input_names(program), ", "),
      has_dims ? fmt::format("  const int64_t dims[] = {{{}}};\n", sizes) : "",
      has_dims ? "dims" : "nullptr");
}

}  // namespace llmc::emit
