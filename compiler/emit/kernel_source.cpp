#include "compiler/emit/kernel_source.h"

#include <fmt/format.h>

#include <array>

#include "compiler/emit/runner_table.h"
#include "compiler/emit/source.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/check.h"

namespace llmc::emit {
std::string gemm_source(const GemmKernel& kernel, const target::Target& target) {
  return fmt::format(
      "// y[{tokens}][{rows}] = x[{tokens}][{columns}] . w[{rows}][{columns}]^T for {target}, "
      "written by llmc {version}.\n\n"
      "#include \"llmc/kernels.h\"\n\n"
      "namespace {{\n\n"
      "using namespace llmc;\n"
      "using Matrix = {weight}<packed_rows({rows}), {columns}>;\n"
      "static_assert(Matrix::bytes == {weight_bytes});\n"
      "static_assert(linear_work_bytes(Matrix::kKind, {columns}, 1, {tokens}, {threads}) == "
      "{work_bytes});\n\n"
      "}}  // namespace\n\n"
      "extern \"C\" void {function}(const llmc_run* run, const float* x, float* y) {{\n"
      "  linear(KernelContext{{run, run->count, run->scratch}}, Rows<{columns}>{{x}}, "
      "Matrix{{run->weights}}, Store<{rows}>{{y}});\n"
      "}}\n",
      fmt::arg("tokens", kernel.tokens), fmt::arg("rows", kernel.rows),
      fmt::arg("columns", kernel.columns), fmt::arg("target", target::described(target)),
      fmt::arg("version", kCompilerVersion),
      fmt::arg("weight", plan::find_weight_format(kernel.kind)->type),
      fmt::arg("weight_bytes", kernel.weight_bytes()), fmt::arg("threads", kernel.threads),
      fmt::arg("work_bytes", kernel.work_bytes()), fmt::arg("function", kGemmFunction));
}

std::string peak_source(const target::Target& target) {
  return fmt::format(
      "// Only the multiply-adds of {target}'s products, written by llmc {version}.\n\n"
      "#include \"llmc/cpu.h\"\n"
      "#include \"llmc/peak.h\"\n\n"
      "extern \"C\" uint64_t {function}(uint32_t arithmetic, uint64_t blocks, int32_t* result) {{\n"
      "  using namespace llmc;\n"
      "  if (!{check}()) return 0;\n"
      "  switch (arithmetic) {{\n"
      "    case {nibbles}:\n"
      "      return peak<Q4Peak>(blocks, result);\n"
      "    case {bytes}:\n"
      "      return peak<BytePeak>(blocks, result);\n"
      "    default:\n"
      "      return peak<FloatPeak>(blocks, result);\n"
      "  }}\n"
      "}}\n",
      fmt::arg("target", target::described(target)), fmt::arg("version", kCompilerVersion),
      fmt::arg("function", kPeakFunction), fmt::arg("check", target.cpu_check),
      fmt::arg("nibbles", static_cast<std::uint32_t>(Arithmetic::kNibbles)),
      fmt::arg("bytes", static_cast<std::uint32_t>(Arithmetic::kBytes)));
}

std::string gemm_runner_source(const GemmKernel& kernel, const target::Target& target) {
  LLMC_CHECK(kernel.threads == 1);
  return gemm_source(kernel, target) +
         fmt::format(
             "\nnamespace {{\n\n"
             "void one_by_one(void*, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {{\n"
             "  for (uint32_t i = 0; i < n; ++i) fn(arg, i);\n"
             "}}\n\n"
             "int call(const void* const* inputs, void* const* outputs, void* arena) {{\n"
             "  llmc_run run = {{}};\n"
             "  run.count = {tokens};\n"
             "  run.scratch = static_cast<unsigned char*>(arena);\n"
             "  run.weights = static_cast<const unsigned char*>(inputs[2]);\n"
             "  run.threads = 1;\n"
             "  run.parallel_for = one_by_one;\n"
             "  const uint32_t times = *static_cast<const uint32_t*>(inputs[1]);\n"
             "  for (uint32_t i = 0; i < times; ++i) {{\n"
             "    {function}(&run, static_cast<const float*>(inputs[0]), "
             "static_cast<float*>(outputs[0]));\n"
             "  }}\n"
             "  return 0;\n"
             "}}\n\n"
             "}}  // namespace\n",
             fmt::arg("tokens", kernel.tokens), fmt::arg("function", kGemmFunction)) +
         runner_table(std::array<RunnerFunction, 1>{{{"call"}}});
}

}  // namespace llmc::emit
