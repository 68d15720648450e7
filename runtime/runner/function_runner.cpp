#include "connection.h"
#include "llmc/cpu.h"
#include "llmc/llmc.h"

/// Calls compiled functions on request. LLMC_RUNNER_CPU_CHECK is the function of llmc/cpu.h that
/// checks whether this CPU can run their code. The generated table llmc_runner_functions contains
/// their addresses.
extern "C" {
using LlmcRunnerFunction = int (*)(const void* const* inputs, void* const* outputs, void* arena,
                                   const int64_t* dims);
extern const LlmcRunnerFunction llmc_runner_functions[];
extern const uint32_t llmc_runner_function_count;
}

namespace llmc::runner {
namespace {

constexpr uint64_t kMaxPath = 4096, kAlignment = 64;
constexpr uint32_t kMaxPorts = 4096, kMaxDims = 4096;
/// Fill byte for memory that the code must write, so that unwritten memory does not look correct by
/// chance.
constexpr int kFill = 0xa5;

uint64_t rounded(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class FunctionRunner {
 public:
  void serve() {
    Hello greeting{};
    for (size_t i = 0; i < sizeof kMagic; ++i) greeting.magic[i] = kMagic[i];
    greeting.version = kVersion;
    greeting.kind = Kind::kFunctions;
    if (!write_all(&greeting, sizeof greeting)) return;
    while (connection_.next() && answer()) {
    }
  }

 private:
  bool answer() {
    switch (connection_.request().what) {
      case Request::kStart:
        return start();
      case Request::kCall:
        return call();
      default:
        return connection_.fail(LLMC_ERROR_ARGUMENT, 0, "not a request of a runner of functions");
    }
  }

  bool start() {
    static char path[kMaxPath];
    if (connection_.request().bytes < sizeof(Start) || !copy_path(connection_, path))
      return connection_.fail(LLMC_ERROR_ARGUMENT, 0, "the path of the constants is too long");
    if (!LLMC_RUNNER_CPU_CHECK())
      return connection_.fail(LLMC_ERROR_CPU, 0,
                              "this machine lacks instructions the functions were compiled for");
    uint64_t bytes = 0;
    if (path[0] != 0) {
      weights_ = static_cast<const unsigned char*>(map_file(path, &bytes));
      if (weights_ == nullptr)
        return connection_.fail(LLMC_ERROR_FILE, 0, "the file of the constants cannot be read");
    }
    weights_bytes_ = bytes;
    started_ = true;
    return connection_.reply(LLMC_OK, 0, 0);
  }

  /// Calls a function. Inputs and outputs are each aligned to 64 bytes; the arena follows them.
  bool call() {
    const uint64_t size = connection_.request().bytes;
    const uint32_t index = connection_.request().argument;
    if (!started_ || size < sizeof(Call) || index >= llmc_runner_function_count) return malformed();
    const Call& call = *connection_.data_as<Call>();
    if (call.inputs >= kMaxPorts || call.outputs > kMaxPorts || call.dims > kMaxDims ||
        call.arena_bytes > kMaxRequestBytes || call.weights_offset > weights_bytes_)
      return malformed();
    const uint64_t ports = uint64_t{call.inputs} + call.outputs;
    uint64_t at = sizeof(Call) + (ports + call.dims) * sizeof(uint64_t);
    if (size < at) return malformed();
    const auto* sizes = connection_.data_as<uint64_t>(sizeof(Call));
    uint64_t total = rounded(call.arena_bytes), in = 0, out = 0;
    for (uint64_t i = 0; i < ports; ++i) {
      if (sizes[i] > kMaxRequestBytes) return malformed();
      total += rounded(sizes[i]);
      (i < call.inputs ? in : out) += sizes[i];
    }
    if (size != at + in) return malformed();
    auto* const memory = static_cast<unsigned char*>(allocate(total));
    if (memory == nullptr)
      return connection_.fail(LLMC_ERROR_MEMORY, 0, "no memory for inputs, outputs and arena");

    static const void* inputs[kMaxPorts];
    static void* outputs[kMaxPorts];
    unsigned char* to = memory;
    for (uint32_t i = 0; i < call.inputs; ++i) {
      __builtin_memcpy(to, connection_.data() + at, sizes[i]);
      at += sizes[i];
      inputs[i] = to;
      to += rounded(sizes[i]);
    }
    inputs[call.inputs] = weights_ + call.weights_offset;
    __builtin_memset(to, kFill, static_cast<size_t>(memory + total - to));
    for (uint32_t i = 0; i < call.outputs; ++i) {
      outputs[i] = to;
      to += rounded(sizes[call.inputs + i]);
    }
    const auto* dims = reinterpret_cast<const int64_t*>(sizes + ports);
    const int status = llmc_runner_functions[index](inputs, outputs, to, dims);
    const ReplyHeader header{static_cast<uint32_t>(status), 0, 0, status == 0 ? out : 0};
    bool told = write_all(&header, sizeof header);
    for (uint32_t i = 0; status == 0 && told && i < call.outputs; ++i)
      told = write_all(outputs[i], sizes[call.inputs + i]);
    release(memory, total);
    return told;
  }

  bool malformed() {
    return connection_.fail(LLMC_ERROR_ARGUMENT, 0, "a call whose sizes make no sense");
  }

  Connection connection_;
  const unsigned char* weights_ = nullptr;
  uint64_t weights_bytes_ = 0;
  bool started_ = false;
};

}  // namespace
}  // namespace llmc::runner

extern "C" int llmc_runner_main() {
  static llmc::runner::FunctionRunner runner;
  runner.serve();
  return 0;
}
