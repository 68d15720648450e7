#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "llmc/device.h"
#include "runtime/hosted/device/job_thread.h"
#include "runtime/hosted/device/opencl_api.h"
#include "runtime/hosted/device/opencl_cache.h"
#include "runtime/hosted/device/opencl_find.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

struct OpenClOptions {
  std::string device = {};  // a part of "platform: device"; empty: see find_device()
  bool copies = false;      // copies rows and weights even if the device can share the CPU's memory
  std::filesystem::path kernels = {};     // file that caches compiled kernels; empty: none
  std::size_t max_group = SIZE_MAX;       // maximum work items per group in products; at least 32
  std::uint64_t max_buffer = UINT64_MAX;  // maximum size of a buffer in bytes
  std::optional<opencl::MatrixProducts> matrix_products = {};  // nullopt: those of the device
};

/// The accelerator `opencl`: any OpenCL 1.2 device whose arithmetic is correctly rounded. Regions
/// are run from their description as data (llmc_device_program) with the kernels of
/// opencl_rows.h, opencl_products.h and opencl_matrix.h, which compute the same bits as the CPU's.
///
/// If the device shares the CPU's memory, it uses weights and rows in place. A chunk's scratch is
/// then mapped for the CPU, except while a job uses it. GPUs can use memory in place only if it is
/// aligned to a page. Otherwise weights are copied once, and with each job the rows that the CPU
/// and the device exchange.
class OpenClDevice {
 public:
  /// Fails with LLMC_ERROR_DEVICE if the system has no suitable device, and with LLMC_ERROR_MEMORY
  /// if it cannot create a thread.
  static Outcome<std::unique_ptr<OpenClDevice>> create(const OpenClOptions& options);
  ~OpenClDevice();
  OpenClDevice(const OpenClDevice&) = delete;
  OpenClDevice& operator=(const OpenClDevice&) = delete;

  /// Returns the functions for llmc_config.device. Valid as long as this object, which must outlive
  /// the sessions that use it.
  const llmc_device& device() const { return device_; }
  const std::string& name() const { return name_; }  // "platform: device"
  /// Returns whether the device uses the memory of the last initialized session in place, without
  /// copies.
  bool shares_memory() const { return shares_memory_; }
  /// Returns how the products of all quantized formats so far are computed; kNone if at least one
  /// format needs ByteProducts.
  opencl::MatrixProducts matrix_products() const;
  /// Returns the number of bytes of rows that were copied from and to the device.
  std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  using Handle = opencl::Handle;
  /// Sizes of groups, in work items, and of the tiles that they compute in a product
  /// (opencl_formats.h).
  static constexpr std::uint32_t kGroupX = 16, kMinGroupY = 2, kTileRows = 64, kTokensOfY = 4,
                                 kMatrixGroupY = 8;
  /// Values of FORMAT, BITS, BLOCK, SCALE_BYTES and ZERO (opencl_formats.h).
  using Format =
      std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;
  struct Program {
    Handle program = nullptr, linear = nullptr, gated = nullptr;
    std::size_t group = 0;   // GROUP_Y of opencl_formats.h
    bool by_matrix = false;  // computes with MatrixProducts, not with ByteProducts
  };
  /// The scratch of a chunk.
  struct Slot {
    unsigned char* host = nullptr;
    std::size_t bytes = 0;
    Handle buffer = nullptr;
    bool mapped = false;  // whether it is mapped for the CPU
  };
  struct ReleaseEvent {
    const opencl::Api* api;
    void operator()(void* event) const { api->ReleaseEvent(event); }
  };
  using Event = std::unique_ptr<void, ReleaseEvent>;
  /// Number of elements of jobs_. Job i reuses the element of job i - kJobs, for which the runtime
  /// has already waited, because no chunk is that far ahead of another one.
  static constexpr std::uint64_t kJobs = 2 * LLMC_MAX_IN_FLIGHT;
  struct Job {
    std::uint64_t ticket = 0;  // 0: unused
    const llmc_run* run = nullptr;
    std::uint32_t first_step = 0, end_step = 0;
    Slot* slot = nullptr;
    Handle event = nullptr;  // completes with the job; nullptr if enqueue() failed
  };

  OpenClDevice(const opencl::Api& api, const OpenClOptions& options);
  void open(const opencl::FoundDevice& found, const OpenClOptions& options);
  void build_rows();
  void release_rows();
  void check_arithmetic();
  llmc_status prepare(const llmc_model& model, const void* weights, void* scratch,
                      std::uint64_t scratch_bytes);
  std::uint64_t submit(const llmc_device_job& job);
  int wait(std::uint64_t ticket, std::uint32_t timeout_us);
  void cancel();
  void release();

  Handle buffer(opencl::Bits flags, std::size_t bytes, const void* host);
  Handle build(const std::string& source, const std::string& options);
  Handle load_program(std::uint64_t key, const std::string& options);
  void keep_program(std::uint64_t key, Handle program);
  Handle kernel(Handle program, const char* name);
  const Program& product_program(const llmc_device_matrix& matrix);
  Program build_products(const llmc_device_matrix& matrix, std::size_t group, bool by_matrix);
  void try_matrix(const Program& program);
  bool fits(const Program& program);
  void release(const Program& program);
  void fail(const char* reason, std::int32_t code) noexcept;
  void enqueue(std::uint64_t ticket) noexcept;
  Event enqueue(const Job& job);
  void run(const llmc_device_op& op, Slot& slot, std::uint32_t count);
  void run_linear(const llmc_device_op& op, Slot& slot, std::uint32_t count);
  void copy(const llmc_device_copy& copy, Handle queue, Slot& slot, std::uint32_t count);
  Event marker(Handle queue, std::span<const Handle> waits = {});
  void map(Slot& slot, bool blocking);
  std::int32_t unmap(Slot& slot);
  void prepare_memory(const llmc_model& model, const unsigned char* weights, unsigned char* scratch,
                      std::uint64_t scratch_bytes);
  void register_scratch(unsigned char* scratch, std::uint64_t bytes);
  void check_op(const llmc_device_op& op);
  /// The range of bytes of the weights that an operation reads; `end` is exclusive.
  struct WeightRange {
    std::uint64_t begin = UINT64_MAX, end = 0;

    void add(std::uint64_t offset, std::uint64_t bytes);
    bool empty() const { return end == 0; }
  };
  static WeightRange weights_of(const llmc_device_op& op);
  std::vector<WeightRange> divide_weights(const llmc_model& model, bool in_pages);
  static constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
    return (a + b - 1) / b;
  }
  static bool is_linear(const llmc_device_op& op) {
    return op.kind == LLMC_OP_LINEAR || op.kind == LLMC_OP_GATED_LINEAR;
  }
  /// Calls `body`. If it throws, stores the reason in message_ and returns false.
  template <class Body>
  bool attempt(Body&& body) noexcept {
    try {
      body();
      return true;
    } catch (opencl::DeviceError& error) {
      message_ = std::move(error.message);
    } catch (...) {  // only allocations can fail here
      message_ = "out of memory";
    }
    return false;
  }
  std::uint64_t in_weights(std::uint64_t offset) const {
    return offset == LLMC_DEVICE_NONE ? offset : offset - part_->begin;
  }
  struct Sizes {
    std::size_t x = 1, y = 1;
  };
  /// Sets the arguments of a kernel and enqueues it. If `local` is nullptr, the driver chooses the
  /// size of groups.
  template <class... Args>
  void launch(Handle kernel, Sizes global, const Sizes* local, const Args&... args) {
    std::uint32_t index = 0;
    (opencl::check(api_.SetKernelArg(kernel, index++, sizeof args, &args), "clSetKernelArg"), ...);
    enqueue(kernel, global, local);
  }
  void enqueue(Handle kernel, Sizes global, const Sizes* local);

  const opencl::Api& api_;
  llmc_device device_{};
  std::string name_, versions_, message_;
  bool can_share_ = false, is_cpu_ = false;
  opencl::ByteProducts byte_products_ = opencl::ByteProducts::kPlain;
  opencl::MatrixProducts matrix_products_ = opencl::MatrixProducts::kNone;
  std::size_t largest_group_ = 8;  // maximum GROUP_Y
  bool shares_memory_ = false;     // whether it uses the session's scratch and weights in place
  std::uint64_t max_allocation_ = 0;
  std::atomic<std::uint64_t> copied_bytes_ = 0;
  Handle id_ = nullptr, context_ = nullptr, queue_ = nullptr;
  Handle results_queue_ = nullptr;  // copies rows to the CPU at the end of a job
  Handle rows_program_ = nullptr, norm_ = nullptr, quantize_ = nullptr, unpack_ = nullptr,
         elementwise_ = nullptr;
  opencl::ProgramCache kernels_;
  std::map<Format, Program> programs_;

  // Of the session that was initialized last.
  const llmc_model* model_ = nullptr;
  const unsigned char* weights_ = nullptr;
  // The weights, divided into parts because devices limit the size of a buffer. An operation reads
  // one part.
  struct WeightPart {
    std::uint64_t begin = 0;  // offset of its first byte in the weights
    Handle buffer = nullptr;
  };
  std::vector<WeightPart> parts_;
  std::vector<std::uint32_t> part_of_op_;
  const WeightPart* part_ = nullptr;                            // the part that the current
                                                                // operation reads
  Handle codes_ = nullptr, sums_ = nullptr, scales_ = nullptr;  // the quantized input of a product
  Handle normed_ = nullptr;                                     // the normalized input
  Handle registered_ = nullptr;                                 // all of the scratch, if rows are
                                                                // copied
  void* registered_at_ = nullptr;
  std::vector<Slot> slots_;
  Job jobs_[kJobs] = {};             // job i is jobs_[i % kJobs]
  std::atomic<bool> skips_ = false;  // a job has failed: later jobs fail, until cancel()
  JobThread thread_;                 // enqueues the commands of jobs
};

}  // namespace llmc::hosted
