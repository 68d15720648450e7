#include "compiler/emit/device_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <vector>

#include "compiler/emit/fields.h"
#include "compiler/emit/names.h"
#include "compiler/ir/op_info.h"
#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

using plan::BufferId;
using plan::LoopStage;
using plan::WeightRef;

/// Writes the entries of kDeviceOps for the stages of one execution of a region.
class Ops {
 public:
  Ops(const plan::Plan& plan, const LoopStage* loop, std::uint32_t pass)
      : plan_(plan), loop_(loop), pass_(pass) {}

  std::string operator()(const plan::LinearStage& s) const {
    using enum plan::LinearStage::Epilogue;
    const bool gated = s.epilogue == kGated;
    const BufferId added = s.epilogue == kAddTo      ? s.out
                           : s.epilogue == kAddStore ? s.residual
                                                     : BufferId{};
    return op({.kind = gated ? "GATED_LINEAR" : "LINEAR",
               .function = function(s.function),
               .norm = &s.norm,
               .quantized = s.quantized,
               .n = s.n,
               .k = s.k,
               .x = s.source,
               .y = added,
               .out = s.out,
               .matrix = s.weight,
               .matrix_2 = s.more_rows,
               .bias = s.bias});
  }
  std::string operator()(const plan::NormStage& s) const {
    return op({.kind = "NORM",
               .norm = &s.norm,
               .n = s.width,
               .parts = s.parts,
               .x = s.x,
               .y = s.residual,
               .out = s.out});
  }
  std::string operator()(const plan::GatedStage& s) const {
    return op({.kind = "GATED",
               .function = function(s.function),
               .n = s.width,
               .x = s.gate,
               .y = s.up,
               .out = s.out});
  }
  std::string operator()(const plan::BinaryStage& s) const {
    return op({.kind = "BINARY",
               .function = macro_name(ir::op_name(ir::Binary{s.kind})),
               .n = s.width,
               .value = s.value,
               .x = s.a,
               .y = s.b,
               .out = s.out,
               .row = s.row,
               .number = s.number});
  }
  std::string operator()(const plan::UnaryStage& s) const {
    return op({.kind = "UNARY",
               .function = macro_name(ir::op_name(ir::Unary{s.kind})),
               .n = s.width,
               .x = s.x,
               .out = s.out});
  }
  std::string operator()(const plan::CopyStage& s) const {
    return op({.kind = "UNARY", .n = s.width, .x = s.x, .out = s.out});
  }
  template <class Other>
  std::string operator()(const Other&) const {
    LLMC_CHECK(false);  // the partition assigns no other stages to a device
    return {};
  }

 private:
  struct Fields {
    std::string_view kind;
    std::string function = "IDENTITY";
    const plan::NormInput* norm = nullptr;
    bool quantized = false;
    std::uint64_t n = 0, k = 0, parts = 1;
    float value = 0;
    BufferId x{}, y{}, out{};
    WeightRef matrix{}, matrix_2{}, bias{}, row{}, number{};
  };

  static std::string function(ir::ActivationFn fn) {
    return macro_name(ir::op_name(ir::Unary{ir::unary_kind(fn)}));
  }
  /// `fields` omits the values "nullptr".
  std::string rows(BufferId id) const {
    return id.exists() ? fmt::to_string(plan_.memory.buffers[id.index].offset) : "nullptr";
  }
  const plan::PackedWeight& weight(WeightRef ref) const {
    return plan::weight_of(plan_.program, ref, loop_, pass_);
  }
  std::string offset(WeightRef ref) const {
    return ref.exists() ? fmt::to_string(weight(ref).offset) : "nullptr";
  }
  /// Returns the number, or "nullptr" if it is the one that DeviceOp has by itself.
  static std::string unless(std::uint64_t usual, std::uint64_t value) {
    return value == usual ? "nullptr" : fmt::to_string(value);
  }
  static std::string unless_zero(float value) {
    return std::bit_cast<std::uint32_t>(value) == 0 ? "nullptr" : float_literal(value);
  }
  std::string matrix(WeightRef ref) const {
    if (!ref.exists()) return "nullptr";
    const plan::PackedWeight& w = weight(ref);
    const auto text = [&](std::string_view kind, const std::string& bits = "nullptr",
                          const std::string& block = "nullptr",
                          const std::string& scale_bytes = "nullptr",
                          const std::string& zero = "nullptr") {
      return fields({{"offset", fmt::to_string(w.offset)},
                     {"bytes", fmt::to_string(w.bytes)},
                     {"rows", fmt::to_string(w.packed_rows)},
                     {"kind", fmt::format("LLMC_MATRIX_{}", kind)},
                     {"bits", bits},
                     {"block", block},
                     {"scale_bytes", scale_bytes},
                     {"zero", zero},
                     {"hadamard", w.basis == Basis::kHadamard ? "1" : "nullptr"}});
    };
    switch (w.matrix) {
      case WeightKind::kF32:
        return text("F32");
      case WeightKind::kF16:
        return text("F16");
      case WeightKind::kQ4:
        return text("Q4");
      case WeightKind::kQ8:
        break;
    }
    static constexpr std::string_view kZeros[] = {"NONE", "INTEGER", "FLOAT"};
    const CodedFormat f = coded_format(w.matrix);
    return text("CODED", fmt::to_string(f.bits), fmt::to_string(f.block),
                fmt::to_string(coded_number_bytes(f)),
                fmt::format("LLMC_ZERO_{}", kZeros[static_cast<std::size_t>(f.zero)]));
  }
  std::string op(const Fields& f) const {
    const bool normed = f.norm != nullptr && f.norm->exists();
    const bool layer_norm = normed && f.norm->kind == ir::NormKind::kLayer;
    const std::string norm = layer_norm ? "LLMC_NORM_LAYER" : "LLMC_NORM_RMS";
    return fmt::format(
        "    DeviceOp{},\n",
        fields({{"kind", fmt::format("LLMC_OP_{}", f.kind)},
                {"function", f.function == "IDENTITY" ? "nullptr" : "LLMC_FUNCTION_" + f.function},
                {"norm", normed ? norm : "nullptr"},
                {"quantized", f.quantized ? "1" : "nullptr"},
                {"n", fmt::to_string(f.n)},
                {"k", unless(0, f.k)},
                {"parts", unless(1, f.parts)},
                {"epsilon", unless_zero(normed ? f.norm->epsilon : 0)},
                {"value", unless_zero(f.value)},
                {"x", rows(f.x)},
                {"y", rows(f.y)},
                {"out", rows(f.out)},
                {"matrix", matrix(f.matrix)},
                {"matrix_2", matrix(f.matrix_2)},
                {"bias", offset(f.bias)},
                {"norm_weight", normed ? offset(f.norm->weight) : "nullptr"},
                {"norm_bias", layer_norm ? offset(f.norm->bias) : "nullptr"},
                {"row", offset(f.row)},
                {"number", offset(f.number)}}));
  }

  const plan::Plan& plan_;
  const LoopStage* const loop_;
  const std::uint32_t pass_;
};

/// A table of items by step: their text, and the number of items before each step.
struct Table {
  std::string items;
  std::uint32_t count = 0;
  std::vector<std::uint32_t> begins = {};

  void add(const std::string& item) {
    items += item;
    ++count;
  }
  std::string begins_text() const {
    std::string text;
    for (std::size_t i = 0; i < begins.size(); i += 16)
      text += fmt::format(
          "    {},\n",
          fmt::join(begins.begin() + static_cast<std::ptrdiff_t>(i),
                    begins.begin() + static_cast<std::ptrdiff_t>(std::min(i + 16, begins.size())),
                    ", "));
    return text;
  }
};

Table ops_table(const plan::Plan& plan) {
  Table table;
  for (const plan::Step& step : plan::steps_of(plan.program)) {
    if (step.loop != nullptr && step.segment.begin == 0)
      table.items += fmt::format("    // {}, iteration {}\n", step.loop->function, step.iteration);
    table.begins.push_back(table.count);
    if (step.segment.region == 0) continue;
    for (std::size_t i = step.segment.begin; i < step.segment.end; ++i)
      table.add(std::visit(Ops(plan, step.loop, step.iteration), (*step.stages)[i].op));
  }
  table.begins.push_back(table.count);
  return table;
}

Table copies_table(const plan::Plan& plan) {
  Table table;
  auto at = plan.partition->crossings.begin();
  for (std::uint32_t step = 0; step < plan.partition->steps; ++step) {
    table.begins.push_back(table.count);
    for (; at != plan.partition->crossings.end() && at->step == step; ++at)
      table.add(fmt::format("    {{{}, {}, {}}},\n", plan.memory.buffers[at->buffer.index].offset,
                            plan.program.buffers[at->buffer.index].row_bytes(),
                            at->from_device ? 1 : 0));
  }
  table.begins.push_back(table.count);
  return table;
}

}  // namespace

std::string device_program(const plan::Plan& plan) {
  const Table ops = ops_table(plan), copies = copies_table(plan);
  return fmt::format(
      "\n/// The regions as data (llmc/device.h): operations, rows that cross the border, and, "
      "for\n"
      "/// each step, the index of its first operation and of its first row.\n"
      "constexpr llmc_device_op kDeviceOps[] = {{\n{}}};\n"
      "constexpr llmc_device_copy kDeviceCopies[] = {{\n{}}};\n"
      "constexpr uint32_t kStepOps[] = {{\n{}}};\n"
      "constexpr uint32_t kStepCopies[] = {{\n{}}};\n"
      "constexpr llmc_device_program kDeviceProgram = {{\n"
      "    kDeviceOps, kDeviceCopies, kStepOps, kStepCopies}};\n",
      ops.items, copies.items, ops.begins_text(), copies.begins_text());
}

}  // namespace llmc::emit
