#include <algorithm>

#include "llmc/arena.h"
#include "runtime/hosted/device/opencl_device.h"

/// The memory of a session on the device, and of the CPU where they share it.
namespace llmc::hosted {

using namespace opencl;

Handle OpenClDevice::buffer(Bits flags, std::size_t bytes, const void* host) {
  if (max_allocation_ != 0 && bytes > max_allocation_)
    throw DeviceError{"the model needs " + std::to_string(bytes >> 20) +
                      " MiB in one piece, the device allows " +
                      std::to_string(max_allocation_ >> 20)};
  std::int32_t code = 0;
  const Handle made = api_.CreateBuffer(context_, host != nullptr ? flags | kUseHostMemory : flags,
                                        bytes, const_cast<void*>(host), &code);
  check(code, "clCreateBuffer");
  return made;
}

void OpenClDevice::prepare_memory(const llmc_model& model, const unsigned char* weights,
                                  unsigned char* scratch, std::uint64_t scratch_bytes) {
  const llmc_device_program& program = *model.device_program;
  std::uint64_t begin = UINT64_MAX, end = 0, codes = 4, sums = 4, scales = 4, normed = 4;
  const auto reads = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (offset == LLMC_DEVICE_NONE || bytes == 0) return;
    begin = std::min(begin, offset);
    end = std::max(end, offset + bytes);
  };
  for (std::uint32_t i = 0; i < program.step_ops[model.steps]; ++i) {
    const llmc_device_op& op = program.ops[i];
    check_op(op);
    const std::uint64_t width = is_linear(op) ? op.k : op.n;
    for (const llmc_device_matrix* matrix : {&op.matrix, &op.matrix_2}) {
      reads(matrix->offset, matrix->bytes);
      if (matrix->offset != LLMC_DEVICE_NONE) product_program(*matrix);
    }
    reads(op.bias, (op.matrix.rows + std::uint64_t{op.matrix_2.rows}) * sizeof(float));
    reads(op.norm_weight, width * sizeof(float));
    reads(op.norm_bias, width * sizeof(float));
    reads(op.row, op.n * sizeof(float));
    reads(op.number, sizeof(float));
    if (!is_linear(op)) continue;
    const std::uint64_t blocks = ceil_div(op.k, 32);
    codes = std::max(codes, model.chunk * blocks * 32);
    sums = std::max(sums, model.chunk * blocks * 2 * sizeof(std::int16_t));
    scales = std::max(scales, model.chunk * ceil_div(op.k, 256) * sizeof(float));
    normed = std::max(normed, std::uint64_t{model.chunk} * op.k * sizeof(float));
  }
  const auto is_page = [](const unsigned char* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % LLMC_PAGE_BYTES == 0;
  };
  const bool any_weight = end > 0;
  weights_begin_ = !any_weight ? 0 : is_page(weights) ? begin - begin % LLMC_PAGE_BYTES : begin;
  const unsigned char* const first = weights + weights_begin_;
  const bool has_pages = is_page(scratch) && model.scratch_bytes % LLMC_PAGE_BYTES == 0;
  shares_memory_ = can_share_ && any_weight && (is_cpu_ || (is_page(first) && has_pages));
  const std::size_t weight_bytes = any_weight ? end - weights_begin_ : sizeof(float);
  weights_buffer_ = buffer(kReadOnly, weight_bytes, shares_memory_ ? first : nullptr);
  if (!shares_memory_ && any_weight)
    check(api_.EnqueueWriteBuffer(queue_, weights_buffer_, 1, 0, weight_bytes, first, 0, nullptr,
                                  nullptr),
          "clEnqueueWriteBuffer");
  codes_ = buffer(kReadWrite, codes, nullptr);
  sums_ = buffer(kReadWrite, sums, nullptr);
  scales_ = buffer(kReadWrite, scales, nullptr);
  normed_ = buffer(kReadWrite, normed, nullptr);
  slots_.reserve(scratch_bytes / model.scratch_bytes);
  for (std::uint64_t at = 0; at + model.scratch_bytes <= scratch_bytes; at += model.scratch_bytes) {
    slots_.push_back({.host = scratch + at, .bytes = model.scratch_bytes});
    Slot& slot = slots_.back();
    slot.buffer = buffer(kReadWrite, slot.bytes, shares_memory_ ? slot.host : nullptr);
    map(slot, true);
  }
  if (!shares_memory_ && has_pages) register_scratch(scratch, scratch_bytes);
}

/// Tells the driver where rows cross, so that it can pin this memory and transfer them by DMA. The
/// CPU has it mapped all the time. If this fails, rows are transferred like any others.
void OpenClDevice::register_scratch(unsigned char* scratch, std::uint64_t bytes) {
  std::int32_t code = 0;
  registered_ = api_.CreateBuffer(context_, kReadWrite | kUseHostMemory, bytes, scratch, &code);
  if (code == 0)
    registered_at_ = api_.EnqueueMapBuffer(queue_, registered_, 1, kMapRead | kMapWrite, 0, bytes,
                                           0, nullptr, nullptr, &code);
  if (code == 0) return;
  if (registered_ != nullptr) api_.ReleaseMemObject(registered_);
  registered_ = registered_at_ = nullptr;
}

/// Gives a chunk's scratch to the CPU. Does nothing if the device has a memory of its own.
void OpenClDevice::map(Slot& slot, bool blocking) {
  if (!shares_memory_ || slot.mapped || slot.buffer == nullptr) return;
  std::int32_t code = 0;
  api_.EnqueueMapBuffer(queue_, slot.buffer, blocking ? 1 : 0, kMapRead | kMapWrite, 0, slot.bytes,
                        0, nullptr, nullptr, &code);
  check(code, "clEnqueueMapBuffer");
  slot.mapped = true;
}
/// Gives it back to the device. Returns OpenCL's code.
std::int32_t OpenClDevice::unmap(Slot& slot) {
  if (!slot.mapped) return 0;
  slot.mapped = false;
  return api_.EnqueueUnmapMemObject(queue_, slot.buffer, slot.host, 0, nullptr, nullptr);
}

}  // namespace llmc::hosted
