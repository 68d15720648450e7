#include "compiler/emit/runner_table.h"

#include <fmt/format.h>

namespace llmc::emit {

std::string runner_table(std::span<const RunnerFunction> functions) {
  std::string text =
      "\n#include <stdint.h>\n\nextern \"C\" {\n"
      "using LlmcRunnerFunction = int (*)(const void* const*, void* const*, void*, const "
      "int64_t*);\n"
      "extern const LlmcRunnerFunction llmc_runner_functions[];\n"
      "extern const unsigned llmc_runner_function_count;\n";
  for (const RunnerFunction& function : functions)
    if (function.has_options)
      text +=
          fmt::format("int {}(const void* const*, void* const*, void*, const llmc_run_options*);\n",
                      function.name);
  text += "const LlmcRunnerFunction llmc_runner_functions[] = {";
  for (const RunnerFunction& function : functions)
    text += fmt::format(
        "\n    [](const void* const* inputs, void* const* outputs, void* arena,\n"
        "       [[maybe_unused]] const int64_t* dims) {{\n      {}\n    }},",
        function.has_options
            ? fmt::format("const llmc_run_options options{{sizeof options, 0, 0, nullptr, nullptr, "
                          "dims}};\n      return {}(inputs, outputs, arena, &options);",
                          function.name)
            : fmt::format("return {}(inputs, outputs, arena);", function.name));
  text += fmt::format("\n    nullptr}};\nconst unsigned llmc_runner_function_count = {};\n}}\n",
                      functions.size());
  return text;
}

}  // namespace llmc::emit
