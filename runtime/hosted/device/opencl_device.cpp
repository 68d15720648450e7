#include "runtime/hosted/device/opencl_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/hosted/device/opencl_find.h"

namespace llmc::hosted {
namespace {

using namespace opencl;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

bool is_quantized(const llmc_device_matrix& matrix) {
  return matrix.kind == LLMC_MATRIX_Q4 || matrix.kind == LLMC_MATRIX_CODED;
}
bool is_linear(const llmc_device_op& op) {
  return op.kind == LLMC_OP_LINEAR || op.kind == LLMC_OP_GATED_LINEAR;
}

}  // namespace

OpenClDevice::OpenClDevice(const Api& api)
    : api_(api),
      device_{.abi = LLMC_DEVICE_ABI,
              .size = sizeof(llmc_device),
              .name = "opencl",
              .user = this,
              .prepare = [](void* user, const llmc_model* model, const void* weights, void* scratch,
                            std::uint64_t bytes) -> llmc_status {
                return static_cast<OpenClDevice*>(user)->prepare(*model, weights, scratch, bytes);
              },
              .submit = [](void* user, const llmc_device_job* job) -> std::uint64_t {
                return static_cast<OpenClDevice*>(user)->submit(*job);
              },
              .wait = [](void* user, std::uint64_t ticket, std::uint32_t timeout_us) -> int {
                return static_cast<OpenClDevice*>(user)->wait(ticket, timeout_us);
              },
              .cancel = [](void* user) { static_cast<OpenClDevice*>(user)->cancel(); },
              .release = [](void* user) { static_cast<OpenClDevice*>(user)->release(); },
              .message = [](void* user) -> const char* {
                return static_cast<OpenClDevice*>(user)->message_.c_str();
              }} {}

Outcome<std::unique_ptr<OpenClDevice>> OpenClDevice::create(const OpenClOptions& options) {
  const auto api = load_api();
  if (!api) return api.failure();
  const auto found = find_device(**api, options.device);
  if (!found) return found.failure();
  std::unique_ptr<OpenClDevice> device(new OpenClDevice(**api));
  device->name_ = found->name;
  device->shares_memory_ = found->shares_memory && !options.copies;
  try {
    device->open(found->id);
    device->check_rounding();
  } catch (const DeviceError& error) {
    return Failure{LLMC_ERROR_DEVICE, found->name + ": " + error.message};
  }
  return device;
}

OpenClDevice::~OpenClDevice() {
  release();
  for (auto& [format, program] : programs_) {
    api_.ReleaseKernel(program.linear);
    api_.ReleaseKernel(program.gated);
    api_.ReleaseProgram(program.program);
  }
  for (const Handle made : {norm_, quantize_, unpack_, elementwise_})
    if (made != nullptr) api_.ReleaseKernel(made);
  if (rows_program_ != nullptr) api_.ReleaseProgram(rows_program_);
  if (queue_ != nullptr) api_.ReleaseCommandQueue(queue_);
  if (context_ != nullptr) api_.ReleaseContext(context_);
}

void OpenClDevice::open(Handle device) {
  id_ = device;
  std::int32_t code = 0;
  context_ = api_.CreateContext(nullptr, 1, &id_, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  queue_ = api_.CreateCommandQueue(context_, id_, 0, &code);
  check(code, "clCreateCommandQueue");
  build_rows();
}

Handle OpenClDevice::buffer(Bits flags, std::size_t bytes, const void* host) {
  std::int32_t code = 0;
  const Handle made = api_.CreateBuffer(context_, host != nullptr ? flags | kUseHostMemory : flags,
                                        bytes, const_cast<void*>(host), &code);
  check(code, "clCreateBuffer");
  return made;
}

llmc_status OpenClDevice::prepare(const llmc_model& model, const void* weights, void* scratch,
                                  std::uint64_t scratch_bytes) {
  if (model.abi != LLMC_MODEL_ABI) return LLMC_ERROR_VERSION;
  if (model.device_program == nullptr || model.scratch_bytes == 0) return LLMC_ERROR_DEVICE;
  release();
  const llmc_device_program& program = *model.device_program;
  std::uint64_t begin = UINT64_MAX, end = 0, codes = 4, sums = 4, scales = 4, normed = 4;
  const auto reads = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (offset == LLMC_DEVICE_NONE || bytes == 0) return;
    begin = std::min(begin, offset);
    end = std::max(end, offset + bytes);
  };
  try {
    for (std::uint32_t i = 0; i < program.step_ops[model.steps]; ++i) {
      const llmc_device_op& op = program.ops[i];
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
      normed = std::max(normed, model.chunk * op.k * sizeof(float));
    }
    weights_begin_ = begin;
    const auto* const first = static_cast<const unsigned char*>(weights) + begin;
    weights_buffer_ = buffer(kReadOnly, end - begin, shares_memory_ ? first : nullptr);
    if (!shares_memory_)
      check(api_.EnqueueWriteBuffer(queue_, weights_buffer_, 1, 0, end - begin, first, 0, nullptr,
                                    nullptr),
            "clEnqueueWriteBuffer");
    codes_ = buffer(kReadWrite, codes, nullptr);
    sums_ = buffer(kReadWrite, sums, nullptr);
    scales_ = buffer(kReadWrite, scales, nullptr);
    normed_ = buffer(kReadWrite, normed, nullptr);
    for (std::uint64_t at = 0; at + model.scratch_bytes <= scratch_bytes;
         at += model.scratch_bytes) {
      Slot slot{.host = static_cast<unsigned char*>(scratch) + at, .bytes = model.scratch_bytes};
      slot.buffer = buffer(kReadWrite, model.scratch_bytes, shares_memory_ ? slot.host : nullptr);
      slots_.push_back(slot);
      map(slots_.back(), true);
    }
  } catch (const DeviceError& error) {
    message_ = error.message;
    release();
    return LLMC_ERROR_DEVICE;
  } catch (...) {  // only allocations can fail here
    release();
    return LLMC_ERROR_MEMORY;
  }
  model_ = &model;
  weights_ = static_cast<const unsigned char*>(weights);
  return LLMC_OK;
}

void OpenClDevice::release() {
  cancel();
  for (Slot& slot : slots_) {
    unmap(slot);
    if (slot.buffer != nullptr) api_.ReleaseMemObject(slot.buffer);
  }
  slots_.clear();
  if (queue_ != nullptr) api_.Finish(queue_);
  for (Handle* memory : {&weights_buffer_, &codes_, &sums_, &scales_, &normed_}) {
    if (*memory != nullptr) api_.ReleaseMemObject(*memory);
    *memory = nullptr;
  }
  model_ = nullptr;
}

/// Gives a chunk's scratch to the CPU, and back to the device. They do nothing if the device has a
/// memory of its own.
void OpenClDevice::map(Slot& slot, bool blocking) {
  if (!shares_memory_ || slot.mapped) return;
  std::int32_t code = 0;
  api_.EnqueueMapBuffer(queue_, slot.buffer, blocking ? 1 : 0, kMapRead | kMapWrite, 0, slot.bytes,
                        0, nullptr, nullptr, &code);
  check(code, "clEnqueueMapBuffer");
  slot.mapped = true;
}
void OpenClDevice::unmap(Slot& slot) {
  if (!slot.mapped) return;
  slot.mapped = false;
  api_.EnqueueUnmapMemObject(queue_, slot.buffer, slot.host, 0, nullptr, nullptr);
}

std::uint64_t OpenClDevice::submit(const llmc_device_job& job) {
  const auto slot = std::ranges::find(slots_, job.run->scratch, &Slot::host);
  const auto free = std::ranges::find(jobs_, std::uint64_t{0}, &Job::ticket);
  if (job.model != model_ || job.run->weights != weights_ || slot == slots_.end() ||
      free == std::end(jobs_)) {
    message_ = "another session was initialised with it";
    return 0;
  }
  try {
    enqueue(job, *slot);
    check(api_.EnqueueMarkerWithWaitList(queue_, 0, nullptr, &free->event),
          "clEnqueueMarkerWithWaitList");
    free->ticket = ++tickets_;
    check(api_.Flush(queue_), "clFlush");
    return free->ticket;
  } catch (const DeviceError& error) {
    message_ = error.message;
    return 0;
  }
}

void OpenClDevice::enqueue(const llmc_device_job& job, Slot& slot) {
  const llmc_device_program& program = *model_->device_program;
  unmap(slot);
  for (std::uint32_t step = job.first_step; step < job.end_step; ++step) {
    const auto copies = [&](std::uint32_t from_device) {
      if (shares_memory_) return;
      for (std::uint32_t i = program.step_copies[step]; i < program.step_copies[step + 1]; ++i)
        if (program.copies[i].from_device == from_device)
          copy(program.copies[i], slot, job.run->count);
    };
    copies(0);
    for (std::uint32_t i = program.step_ops[step]; i < program.step_ops[step + 1]; ++i)
      run(program.ops[i], slot, job.run->count);
    copies(1);
  }
  map(slot, false);
}

void OpenClDevice::copy(const llmc_device_copy& copy, Slot& slot, std::uint32_t count) {
  const std::size_t bytes = std::size_t{copy.row_bytes} * count;
  unsigned char* const host = slot.host + copy.offset;
  if (copy.from_device != 0) {
    check(api_.EnqueueReadBuffer(queue_, slot.buffer, 0, copy.offset, bytes, host, 0, nullptr,
                                 nullptr),
          "clEnqueueReadBuffer");
  } else {
    check(api_.EnqueueWriteBuffer(queue_, slot.buffer, 0, copy.offset, bytes, host, 0, nullptr,
                                  nullptr),
          "clEnqueueWriteBuffer");
  }
  copied_bytes_ += bytes;
}

void OpenClDevice::run(const llmc_device_op& op, Slot& slot, std::uint32_t count) {
  constexpr Sizes kNormGroup{8, 1};
  switch (op.kind) {
    case LLMC_OP_LINEAR:
    case LLMC_OP_GATED_LINEAR:
      return run_linear(op, slot, count);
    case LLMC_OP_NORM:
      return launch(norm_, {std::size_t{count} * op.parts * 8}, &kNormGroup, weights_buffer_,
                    slot.buffer, op.x, op.y, slot.buffer, op.out, in_weights(op.norm_weight),
                    in_weights(op.norm_bias), op.epsilon, op.n,
                    std::uint32_t{op.norm == LLMC_NORM_LAYER});
    case LLMC_OP_GATED:
    case LLMC_OP_BINARY:
    case LLMC_OP_UNARY:
      return launch(elementwise_, {op.n, count}, nullptr, weights_buffer_, slot.buffer,
                    std::uint32_t{op.kind} - LLMC_OP_GATED, std::uint32_t{op.function}, op.x, op.y,
                    op.out, in_weights(op.row), in_weights(op.number), op.value, op.n);
    default:
      throw DeviceError{"unknown operation " + std::to_string(op.kind)};
  }
}

void OpenClDevice::run_linear(const llmc_device_op& op, Slot& slot, std::uint32_t count) {
  constexpr Sizes kNormGroup{8, 1}, kQuantizeGroup{32, 1};
  Handle rows = slot.buffer;
  std::uint64_t x = op.x;
  if (op.norm != LLMC_NORM_NONE) {
    constexpr std::uint64_t kNone = LLMC_DEVICE_NONE, kBegin = 0;
    launch(norm_, {std::size_t{count} * 8}, &kNormGroup, weights_buffer_, rows, x, kNone, normed_,
           kBegin, in_weights(op.norm_weight), in_weights(op.norm_bias), op.epsilon, op.k,
           std::uint32_t{op.norm == LLMC_NORM_LAYER});
    rows = normed_;
    x = 0;
  }
  if (op.quantized != 0) {
    launch(unpack_, {ceil_div(op.k, 64), count}, nullptr, rows, x, codes_, sums_, scales_, op.k);
  } else if (is_quantized(op.matrix)) {
    launch(quantize_, {ceil_div(op.k, 256) * 32, count}, &kQuantizeGroup, rows, x, codes_, sums_,
           scales_, op.k);
  }
  const bool gated = op.kind == LLMC_OP_GATED_LINEAR;
  std::uint32_t first_row = 0;
  for (const llmc_device_matrix* matrix : {&op.matrix, &op.matrix_2}) {
    if (matrix->offset == LLMC_DEVICE_NONE) continue;
    const Program& program = product_program(*matrix);
    const std::size_t work = gated ? matrix->rows / 2 : matrix->rows;
    // The largest group of whole panels that divides the rows.
    Sizes group{64, 1};
    while (work % group.x != 0) group.x /= 2;
    const Sizes global{work, ceil_div(count, kProductRows)};
    const std::uint64_t offset = in_weights(matrix->offset), bias = in_weights(op.bias);
    const std::uint32_t function = op.function;
    if (gated) {
      launch(program.gated, global, &group, weights_buffer_, offset, codes_, sums_, scales_, rows,
             x, op.k, count, op.n, bias, function, slot.buffer, op.out);
    } else {
      launch(program.linear, global, &group, weights_buffer_, offset, first_row, codes_, sums_,
             scales_, rows, x, op.k, count, op.n, bias, function, slot.buffer, op.y, op.out);
    }
    first_row += matrix->rows;
  }
}

int OpenClDevice::wait(std::uint64_t ticket, std::uint32_t timeout_us) {
  const auto job = std::ranges::find(jobs_, ticket, &Job::ticket);
  if (job == std::end(jobs_)) return LLMC_DEVICE_FAILED;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(timeout_us);
  std::int32_t status = 0;
  if (timeout_us == LLMC_DEVICE_NO_LIMIT) api_.WaitForEvents(1, &job->event);
  for (;;) {
    const std::int32_t code =
        api_.GetEventInfo(job->event, kEventStatus, sizeof status, &status, nullptr);
    if (code != 0) status = code;
    if (status <= 0) break;
    if (Clock::now() >= end) return LLMC_DEVICE_RUNNING;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  api_.ReleaseEvent(job->event);
  *job = {};
  if (status == 0) return LLMC_DEVICE_DONE;
  message_ = "a job ended with OpenCL's code " + std::to_string(status);
  return LLMC_DEVICE_FAILED;
}

/// Commands of OpenCL cannot be taken back: waits for them.
void OpenClDevice::cancel() {
  if (queue_ == nullptr) return;
  api_.Finish(queue_);
  for (Job& job : jobs_) {
    if (job.event != nullptr) api_.ReleaseEvent(job.event);
    job = {};
  }
  for (Slot& slot : slots_) {
    try {
      map(slot, true);
    } catch (const DeviceError& error) {
      message_ = error.message;
    }
  }
}

}  // namespace llmc::hosted
