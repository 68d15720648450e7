#include "compiler/exec/random_inputs.h"

#include <bit>

#include "compiler/support/check.h"

namespace llmc::exec {
namespace {

template <class T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

std::vector<ir::ConstantPtr> random_inputs(const std::vector<plan::Port>& ports, int max_integer) {
  std::vector<ir::ConstantPtr> inputs;
  for (const plan::Port& port : ports)
    inputs.push_back(random_tensor(port.element, plan::bounds(port.dims), max_integer));
  return inputs;
}

}  // namespace

ir::ConstantPtr random_tensor(ir::ElementType element, std::vector<std::int64_t> dims,
                              int max_integer) {
  const std::size_t width = ir::element_bytes(element);
  const auto total = ir::checked_byte_count(element, dims);
  LLMC_CHECK(total.has_value());
  const std::size_t count = *total / width;
  std::vector<std::byte> bytes;
  bytes.reserve(count * width);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
    switch (element) {
      case ir::ElementType::kF32:
        append_bytes(bytes, value);
        break;
      case ir::ElementType::kF64:
        append_bytes(bytes, static_cast<double>(value));
        break;
      case ir::ElementType::kF16:
        // The bits are the sign and the fraction; the magnitude is in [0.5, 1).
        append_bytes(bytes, static_cast<std::uint16_t>((state >> 16 & 0x83ffu) | 0x3800u));
        break;
      case ir::ElementType::kBF16:
        append_bytes(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
        break;
      default: {
        // Masks and ids need different values. Little-endian, like every host of llmc.
        const std::int64_t integer = i % 3 != 1 ? max_integer : 0;
        const auto* const from = reinterpret_cast<const std::byte*>(&integer);
        bytes.insert(bytes.end(), from, from + width);
      }
    }
  }
  return ir::make_constant(element, std::move(dims), std::move(bytes));
}

Result<RandomRun> run_with_random_inputs(const FunctionLibrary& library, std::size_t index) {
  RandomRun run;
  for (const int max_integer : {1, 0}) {
    run.max_integer = max_integer;
    run.inputs = random_inputs(library.plan(index).program.inputs, max_integer);
    auto outputs = library.run(index, run.inputs);
    if (outputs.ok()) {
      run.outputs = *std::move(outputs);
      break;
    }
    if (max_integer == 0 || outputs.error().first().kind != ErrorKind::kBadInput)
      return std::move(outputs).error();
  }
  return run;
}

}  // namespace llmc::exec
