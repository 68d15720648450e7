#include "compiler/emit/kernel_source.h"

#include <fmt/format.h>

#include "compiler/emit/source.h"
#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

const char* weight_template(WeightKind kind) {
  switch (kind) {
    case WeightKind::kF32:
      return "WeightF32";
    case WeightKind::kF16:
      return "WeightF16";
    case WeightKind::kQ8:
      return "WeightQ8";
    case WeightKind::kQ4:
      return "WeightQ4";
    default:
      LLMC_CHECK(false);
      return "";
  }
}

}  // namespace

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
      "  linear(Stage{{run, run->count, run->scratch}}, Rows<{columns}>{{x}}, "
      "Matrix{{run->weights}}, Store<{rows}>{{y}});\n"
      "}}\n",
      fmt::arg("tokens", kernel.tokens), fmt::arg("rows", kernel.rows),
      fmt::arg("columns", kernel.columns), fmt::arg("target", target::described(target)),
      fmt::arg("version", kCompilerVersion), fmt::arg("weight", weight_template(kernel.kind)),
      fmt::arg("weight_bytes", kernel.weight_bytes()), fmt::arg("threads", kernel.threads),
      fmt::arg("work_bytes", kernel.work_bytes()), fmt::arg("function", kGemmFunction));
}

}  // namespace llmc::emit
