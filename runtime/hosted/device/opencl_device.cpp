#include "runtime/hosted/device/opencl_device.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

namespace llmc::hosted {
namespace {

using namespace opencl;
using Clock = std::chrono::steady_clock;

/// NORM_ITEMS of opencl_rows.h.
constexpr std::size_t kNormItems = 64;

bool is_quantized(const llmc_device_matrix& matrix) {
  return matrix.kind == LLMC_MATRIX_Q4 || matrix.kind == LLMC_MATRIX_CODED;
}

}  // namespace

OpenClDevice::OpenClDevice(const Api& api, const OpenClOptions& options)
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
              }},
      kernels_(options.kernels) {}

Outcome<std::unique_ptr<OpenClDevice>> OpenClDevice::create(const OpenClOptions& options) {
  const auto api = load_api();
  if (!api) return api.failure();
  const auto found = find_device(**api, options.device);
  if (!found) return found.failure();
  std::unique_ptr<OpenClDevice> device(new OpenClDevice(**api, options));
  device->can_share_ = found->shares_memory && !options.copies;
  try {
    device->open(*found, options);
    const auto run = [](void* self, std::uint64_t job) noexcept {
      static_cast<OpenClDevice*>(self)->enqueue(job);
    };
    if (const auto failed = device->thread_.start(run, device.get())) return *failed;
  } catch (const DeviceError& error) {
    return Failure{LLMC_ERROR_DEVICE, found->name + ": " + error.message};
  }
  return device;
}

OpenClDevice::~OpenClDevice() {
  release();
  for (const auto& [format, program] : programs_) release(program);
  release_rows();
  for (const Handle queue : {queue_, results_queue_})
    if (queue != nullptr) api_.ReleaseCommandQueue(queue);
  if (context_ != nullptr) api_.ReleaseContext(context_);
}

void OpenClDevice::open(const FoundDevice& found, const OpenClOptions& options) {
  id_ = found.id;
  name_ = found.name;
  versions_ = found.versions;
  is_cpu_ = found.is_cpu;
  max_allocation_ = std::min(found.max_allocation, options.max_buffer);
  byte_products_ = found.byte_products;
  matrix_products_ = options.matrix_products.value_or(found.matrix_products);
  const std::size_t largest = std::min(found.max_group, options.max_group);
  while (largest_group_ > kMinGroupY && largest_group_ * kGroupX > largest) largest_group_ /= 2;
  std::int32_t code = 0;
  context_ = api_.CreateContext(nullptr, 1, &id_, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  for (Handle* queue : {&queue_, &results_queue_}) {
    *queue = api_.CreateCommandQueue(context_, id_, 0, &code);
    check(code, "clCreateCommandQueue");
  }
  for (;;) {
    try {
      build_rows();
      return check_arithmetic();
    } catch (const DeviceError&) {
      release_rows();
      if (kernels_.forget()) continue;  // try again, with programs compiled from source
      if (byte_products_ == ByteProducts::kPlain) throw;
      byte_products_ = ByteProducts::kPlain;
    }
  }
}

/// Throws if the operation contains values that this version of the interface does not define.
void OpenClDevice::check_op(const llmc_device_op& op) {
  const auto known = [](const llmc_device_matrix& m) {
    return m.offset == LLMC_DEVICE_NONE || m.kind < LLMC_MATRIX_CODED ||
           (m.kind == LLMC_MATRIX_CODED && (m.bits == 4 || m.bits == 6 || m.bits == 8) &&
            std::has_single_bit(m.block) && m.block >= 16 && m.block <= 256 &&
            (m.scale_bytes == 2 || m.scale_bytes == 4) && m.zero <= LLMC_ZERO_FLOAT);
  };
  const bool two_operands = op.kind == LLMC_OP_BINARY;
  if (op.kind > LLMC_OP_UNARY || op.norm > LLMC_NORM_LAYER ||
      op.function > (two_operands ? LLMC_FUNCTION_MAX : LLMC_FUNCTION_GELU_TANH) ||
      (two_operands && op.function < LLMC_FUNCTION_ADD) || op.n == 0 ||
      (is_linear(op) && (op.k == 0 || op.matrix.offset == LLMC_DEVICE_NONE)) || !known(op.matrix) ||
      !known(op.matrix_2))
    throw DeviceError{"operation " + std::to_string(op.kind) + " of the model is unknown"};
}

llmc_status OpenClDevice::prepare(const llmc_model& model, const void* weights, void* scratch,
                                  std::uint64_t scratch_bytes) {
  release();
  message_.clear();
  if (model.abi != LLMC_MODEL_ABI) return LLMC_ERROR_VERSION;
  if (model.device_program == nullptr || model.scratch_bytes == 0) return LLMC_ERROR_DEVICE;
  const bool prepared = attempt([&] {
    prepare_memory(model, static_cast<const unsigned char*>(weights),
                   static_cast<unsigned char*>(scratch), scratch_bytes);
  });
  if (!prepared) {
    release();
    return LLMC_ERROR_DEVICE;
  }
  kernels_.save();
  model_ = &model;
  weights_ = static_cast<const unsigned char*>(weights);
  return LLMC_OK;
}

void OpenClDevice::release() {
  cancel();
  if (registered_at_ != nullptr)
    api_.EnqueueUnmapMemObject(queue_, registered_, registered_at_, 0, nullptr, nullptr);
  registered_at_ = nullptr;
  for (Slot& slot : slots_) {
    unmap(slot);
    if (slot.buffer != nullptr) api_.ReleaseMemObject(slot.buffer);
  }
  slots_.clear();
  if (queue_ != nullptr) api_.Finish(queue_);
  for (WeightPart& part : parts_)
    if (part.buffer != nullptr) api_.ReleaseMemObject(part.buffer);
  parts_.clear();
  for (Handle* memory : {&codes_, &sums_, &scales_, &normed_, &registered_}) {
    if (*memory != nullptr) api_.ReleaseMemObject(*memory);
    *memory = nullptr;
  }
  model_ = nullptr;
}

/// The device's own thread enqueues the commands of a job. This takes hundreds of microseconds, for
/// which the session's threads need not wait.
std::uint64_t OpenClDevice::submit(const llmc_device_job& job) {
  const std::uint64_t ticket = thread_.last() + 1;
  Job& mine = jobs_[ticket % kJobs];
  const auto slot = std::ranges::find(slots_, job.run->scratch, &Slot::host);
  if (job.model != model_ || job.run->weights != weights_ || slot == slots_.end()) {
    fail("another session was initialized with it", 0);
    return 0;
  }
  if (mine.ticket != 0) {
    fail("too many jobs are in progress", 0);
    return 0;
  }
  mine = {ticket, job.run, job.first_step, job.end_step, &*slot, nullptr};
  thread_.submit();
  return ticket;
}

/// Stores the reason of a failure, with OpenCL's error code unless that is 0. Jobs that are not
/// enqueued yet fail until cancel().
void OpenClDevice::fail(const char* reason, std::int32_t code) noexcept {
  skips_ = true;
  thread_.wait(thread_.last(), LLMC_DEVICE_NO_LIMIT);  // it writes message_, too
  attempt(
      [&] { throw DeviceError{code == 0 ? std::string(reason) : reason + std::to_string(code)}; });
}

void OpenClDevice::enqueue(std::uint64_t ticket) noexcept {
  if (skips_) return;
  Job& job = jobs_[ticket % kJobs];
  const bool enqueued = attempt([&] {
    Event end = enqueue(job);
    check(api_.Flush(shares_memory_ ? queue_ : results_queue_), "clFlush");
    job.event = end.release();
  });
  if (!enqueued) skips_ = true;  // later jobs do not replace the reason
}

/// Enqueues the commands of a job. Returns an event that completes with the job. The rows of its
/// last step are copied to the CPU in a separate queue, while the device computes the next job,
/// which uses the scratch of another chunk.
OpenClDevice::Event OpenClDevice::enqueue(const Job& job) {
  const llmc_device_program& program = *model_->device_program;
  Slot& slot = *job.slot;
  const auto copies = [&](std::uint32_t step, std::uint32_t from_device, Handle queue) {
    if (shares_memory_) return;
    for (std::uint32_t i = program.step_copies[step]; i < program.step_copies[step + 1]; ++i)
      if (program.copies[i].from_device == from_device)
        copy(program.copies[i], queue, slot, job.run->count);
  };
  check(unmap(slot), "clEnqueueUnmapMemObject");
  for (std::uint32_t step = job.first_step; step < job.end_step; ++step) {
    copies(step, 0, queue_);
    for (std::uint32_t i = program.step_ops[step]; i < program.step_ops[step + 1]; ++i)
      run(program.ops[i], slot, job.run->count);
    if (step + 1 < job.end_step) copies(step, 1, queue_);
  }
  map(slot, false);
  Event computed = marker(queue_);
  if (shares_memory_) return computed;
  const Handle waits = computed.get();
  check(api_.EnqueueBarrierWithWaitList(results_queue_, 1, &waits, nullptr),
        "clEnqueueBarrierWithWaitList");
  check(api_.Flush(queue_), "clFlush");
  copies(job.end_step - 1, 1, results_queue_);
  const Event copied = marker(results_queue_);
  const Handle both[] = {computed.get(), copied.get()};
  return marker(results_queue_, both);  // fails if one of them does
}

/// Returns an event that completes after all events in `waits` or, if there are none, after all
/// commands in the queue.
OpenClDevice::Event OpenClDevice::marker(Handle queue, std::span<const Handle> waits) {
  Handle event = nullptr;
  check(api_.EnqueueMarkerWithWaitList(queue, static_cast<std::uint32_t>(waits.size()),
                                       waits.empty() ? nullptr : waits.data(), &event),
        "clEnqueueMarkerWithWaitList");
  return Event(event, ReleaseEvent{&api_});
}

void OpenClDevice::copy(const llmc_device_copy& copy, Handle queue, Slot& slot,
                        std::uint32_t count) {
  const std::size_t bytes = std::size_t{copy.row_bytes} * count;
  unsigned char* const host = slot.host + copy.offset;
  if (copy.from_device != 0) {
    check(api_.EnqueueReadBuffer(queue, slot.buffer, 0, copy.offset, bytes, host, 0, nullptr,
                                 nullptr),
          "clEnqueueReadBuffer");
  } else {
    check(api_.EnqueueWriteBuffer(queue, slot.buffer, 0, copy.offset, bytes, host, 0, nullptr,
                                  nullptr),
          "clEnqueueWriteBuffer");
  }
  copied_bytes_ += bytes;
}

void OpenClDevice::run(const llmc_device_op& op, Slot& slot, std::uint32_t count) {
  constexpr Sizes kNormGroup{kNormItems, 1};
  part_ = &parts_[part_of_op_[static_cast<std::size_t>(&op - model_->device_program->ops)]];
  switch (op.kind) {
    case LLMC_OP_LINEAR:
    case LLMC_OP_GATED_LINEAR:
      return run_linear(op, slot, count);
    case LLMC_OP_NORM:
      return launch(norm_, {std::size_t{count} * op.parts * kNormItems}, &kNormGroup, part_->buffer,
                    slot.buffer, op.x, op.y, slot.buffer, op.out, in_weights(op.norm_weight),
                    in_weights(op.norm_bias), op.epsilon, op.n,
                    std::uint32_t{op.norm == LLMC_NORM_LAYER});
    case LLMC_OP_GATED:
    case LLMC_OP_BINARY:
    case LLMC_OP_UNARY:
      return launch(elementwise_, {op.n, count}, nullptr, part_->buffer, slot.buffer,
                    std::uint32_t{op.kind} - LLMC_OP_GATED, std::uint32_t{op.function}, op.x, op.y,
                    op.out, in_weights(op.row), in_weights(op.number), op.value, op.n);
    default:
      break;  // check_op() refuses it
  }
}

void OpenClDevice::run_linear(const llmc_device_op& op, Slot& slot, std::uint32_t count) {
  constexpr Sizes kNormGroup{kNormItems, 1}, kQuantizeGroup{32, 1};
  Handle rows = slot.buffer;
  std::uint64_t x = op.x;
  if (op.norm != LLMC_NORM_NONE) {
    constexpr std::uint64_t kNone = LLMC_DEVICE_NONE, kBegin = 0;
    launch(norm_, {std::size_t{count} * kNormItems}, &kNormGroup, part_->buffer, rows, x, kNone,
           normed_, kBegin, in_weights(op.norm_weight), in_weights(op.norm_bias), op.epsilon, op.k,
           std::uint32_t{op.norm == LLMC_NORM_LAYER});
    rows = normed_;
    x = 0;
  }
  if (op.quantized != 0) {
    launch(unpack_, {ceil_div(op.k, 32) * 2, count}, nullptr, rows, x, codes_, sums_, scales_,
           op.k);
  } else if (is_quantized(op.matrix)) {
    launch(quantize_, {ceil_div(op.k, 256) * 32, count}, &kQuantizeGroup, rows, x, codes_, sums_,
           scales_, op.k, std::uint32_t{op.matrix.hadamard});
  }
  std::uint32_t first_row = 0;
  for (const llmc_device_matrix* matrix : {&op.matrix, &op.matrix_2}) {
    if (matrix->offset == LLMC_DEVICE_NONE) continue;
    const Program& program = product_program(*matrix);
    const Sizes group{kGroupX, program.group};
    const Sizes global{ceil_div(matrix->rows, kTileRows) * kGroupX,
                       ceil_div(count, kTokensOfY * program.group) * program.group};
    const std::uint64_t offset = in_weights(matrix->offset), bias = in_weights(op.bias);
    const std::uint32_t function = op.function;
    if (op.kind == LLMC_OP_GATED_LINEAR) {
      launch(program.gated, global, &group, part_->buffer, offset, matrix->rows, codes_, sums_,
             scales_, rows, x, op.k, count, op.n, bias, function, slot.buffer, op.out);
    } else {
      launch(program.linear, global, &group, part_->buffer, offset, matrix->rows, first_row, codes_,
             sums_, scales_, rows, x, op.k, count, op.n, bias, function, slot.buffer, op.y, op.out);
    }
    first_row += matrix->rows;
  }
}

int OpenClDevice::wait(std::uint64_t ticket, std::uint32_t timeout_us) {
  Job& job = jobs_[ticket % kJobs];
  if (ticket == 0 || job.ticket != ticket) return LLMC_DEVICE_FAILED;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(timeout_us);
  if (!thread_.wait(ticket, timeout_us)) return LLMC_DEVICE_RUNNING;
  if (job.event == nullptr) {  // message_ says why
    job = {};
    return LLMC_DEVICE_FAILED;
  }
  const std::int32_t waited =
      timeout_us == LLMC_DEVICE_NO_LIMIT ? api_.WaitForEvents(1, &job.event) : 0;
  std::int32_t status = 0;
  for (;;) {
    const std::int32_t code =
        api_.GetEventInfo(job.event, kEventStatus, sizeof status, &status, nullptr);
    if (code != 0) status = code;
    if (status > 0 && waited != 0) status = waited;
    if (status <= 0) break;
    if (Clock::now() >= end) return LLMC_DEVICE_RUNNING;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  // Polling does not order the memory of the host and of other queues; a wait does.
  if (status == 0) status = api_.WaitForEvents(1, &job.event);
  api_.ReleaseEvent(job.event);
  Slot& slot = *job.slot;
  job = {};
  if (status == 0) return LLMC_DEVICE_DONE;
  fail("a job ended with OpenCL's code ", status);
  slot.mapped = false;  // perhaps its map failed, too
  return LLMC_DEVICE_FAILED;
}

/// Waits for all enqueued commands, because OpenCL cannot cancel them.
void OpenClDevice::cancel() {
  if (results_queue_ == nullptr) return;
  skips_ = true;
  thread_.wait(thread_.last(), LLMC_DEVICE_NO_LIMIT);
  skips_ = false;
  std::int32_t finished = api_.Finish(queue_);
  if (const std::int32_t code = api_.Finish(results_queue_); finished == 0) finished = code;
  for (Job& job : jobs_) {
    if (job.event != nullptr) api_.ReleaseEvent(job.event);
    job = {};
  }
  if (finished != 0) attempt([&] { check(finished, "clFinish"); });
  for (Slot& slot : slots_) attempt([&] { map(slot, true); });
}

}  // namespace llmc::hosted
