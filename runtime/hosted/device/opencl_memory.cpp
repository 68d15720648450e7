#include <algorithm>

#include "llmc/arena.h"
#include "runtime/hosted/device/opencl_device.h"

/// Manages a session's memory on the device, or the CPU's memory if the device shares it.
namespace llmc::hosted {

using namespace opencl;

Handle OpenClDevice::buffer(Bits flags, std::size_t bytes, const void* host) {
  if (bytes > max_allocation_)
    throw DeviceError{"the model needs " + std::to_string(bytes) +
                      " bytes in one buffer, the device allows " + std::to_string(max_allocation_)};
  std::int32_t code = 0;
  const Handle made = api_.CreateBuffer(context_, host != nullptr ? flags | kUseHostMemory : flags,
                                        bytes, const_cast<void*>(host), &code);
  check(code, "clCreateBuffer");
  return made;
}

void OpenClDevice::WeightRange::add(std::uint64_t offset, std::uint64_t bytes) {
  if (offset == LLMC_DEVICE_NONE || bytes == 0) return;
  begin = std::min(begin, offset);
  end = std::max(end, offset + bytes);
}

OpenClDevice::WeightRange OpenClDevice::weights_of(const llmc_device_op& op) {
  const std::uint64_t width = is_linear(op) ? op.k : op.n;
  WeightRange range;
  for (const llmc_device_matrix* matrix : {&op.matrix, &op.matrix_2})
    range.add(matrix->offset, matrix->bytes);
  range.add(op.bias, (op.matrix.rows + std::uint64_t{op.matrix_2.rows}) * sizeof(float));
  range.add(op.norm_weight, width * sizeof(float));
  range.add(op.norm_bias, width * sizeof(float));
  range.add(op.row, op.n * sizeof(float));
  range.add(op.number, sizeof(float));
  return range;
}

/// Divides the weights into parts that fit a buffer, and stores which part each operation reads.
/// The last part is extended by what an operation reads, as long as the result fits a buffer;
/// otherwise a new part begins. `in_pages`: parts begin at a page.
std::vector<OpenClDevice::WeightRange> OpenClDevice::divide_weights(const llmc_model& model,
                                                                    bool in_pages) {
  const llmc_device_program& program = *model.device_program;
  std::vector<WeightRange> parts(1);
  part_of_op_.clear();
  for (std::uint32_t i = 0; i < program.step_ops[model.steps]; ++i) {
    WeightRange range = weights_of(program.ops[i]);
    if (!range.empty()) {
      if (in_pages) range.begin -= range.begin % LLMC_PAGE_BYTES;
      WeightRange both = parts.back();
      both.add(range.begin, range.end - range.begin);
      if (parts.back().empty() || both.end - both.begin <= max_allocation_) {
        parts.back() = both;
      } else {
        parts.push_back(range);
      }
    }
    part_of_op_.push_back(static_cast<std::uint32_t>(parts.size() - 1));
  }
  return parts;
}

void OpenClDevice::prepare_memory(const llmc_model& model, const unsigned char* weights,
                                  unsigned char* scratch, std::uint64_t scratch_bytes) {
  const llmc_device_program& program = *model.device_program;
  std::uint64_t codes = 4, sums = 4, scales = 4, normed = 4;
  for (std::uint32_t i = 0; i < program.step_ops[model.steps]; ++i) {
    const llmc_device_op& op = program.ops[i];
    check_op(op);
    for (const llmc_device_matrix* matrix : {&op.matrix, &op.matrix_2})
      if (matrix->offset != LLMC_DEVICE_NONE) product_program(*matrix);
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
  const std::vector<WeightRange> parts = divide_weights(model, is_page(weights));
  const bool has_pages = is_page(scratch) && model.scratch_bytes % LLMC_PAGE_BYTES == 0;
  shares_memory_ = can_share_ && !parts[0].empty() && (is_cpu_ || (is_page(weights) && has_pages));
  parts_.reserve(parts.size());
  for (const WeightRange& part : parts) {
    if (part.empty()) {  // the model's regions read no weights
      parts_.push_back({0, buffer(kReadOnly, sizeof(float), nullptr)});
      continue;
    }
    const unsigned char* const first = weights + part.begin;
    const std::size_t bytes = part.end - part.begin;
    parts_.push_back({part.begin, buffer(kReadOnly, bytes, shares_memory_ ? first : nullptr)});
    if (!shares_memory_)
      check(api_.EnqueueWriteBuffer(queue_, parts_.back().buffer, 1, 0, bytes, first, 0, nullptr,
                                    nullptr),
            "clEnqueueWriteBuffer");
  }
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

/// Tells the driver which host memory rows are copied to and from, so that it can pin this memory
/// and transfer them by DMA. The memory stays mapped for the CPU. If this fails, rows are copied
/// without pinned memory.
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

/// Maps a chunk's scratch for the CPU. Has no effect if the device does not share the CPU's memory.
void OpenClDevice::map(Slot& slot, bool blocking) {
  if (!shares_memory_ || slot.mapped || slot.buffer == nullptr) return;
  std::int32_t code = 0;
  api_.EnqueueMapBuffer(queue_, slot.buffer, blocking ? 1 : 0, kMapRead | kMapWrite, 0, slot.bytes,
                        0, nullptr, nullptr, &code);
  check(code, "clEnqueueMapBuffer");
  slot.mapped = true;
}
/// Unmaps it, so that the device can use it. Returns OpenCL's error code.
std::int32_t OpenClDevice::unmap(Slot& slot) {
  if (!slot.mapped) return 0;
  slot.mapped = false;
  return api_.EnqueueUnmapMemObject(queue_, slot.buffer, slot.host, 0, nullptr, nullptr);
}

}  // namespace llmc::hosted
