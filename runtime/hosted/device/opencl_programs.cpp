#include <cstring>

#include "runtime/hosted/device/opencl_device.h"
#include "runtime/hosted/device/opencl_products.h"
#include "runtime/hosted/device/opencl_rows.h"

/// The kernels of the device: compiled for its processor and tried out.
namespace llmc::hosted {
namespace {

using namespace opencl;

constexpr char kBuildOptions[] = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";

// The numbers that kOpenClRows knows.
static_assert(LLMC_FUNCTION_IDENTITY == 0 && LLMC_FUNCTION_NEG == 1 && LLMC_FUNCTION_ABS == 2 &&
              LLMC_FUNCTION_SQRT == 3 && LLMC_FUNCTION_RECIPROCAL == 4 && LLMC_FUNCTION_EXP == 5 &&
              LLMC_FUNCTION_SIGMOID == 6 && LLMC_FUNCTION_SILU == 7 && LLMC_FUNCTION_RELU == 8 &&
              LLMC_FUNCTION_TANH == 9 && LLMC_FUNCTION_ERF == 10 && LLMC_FUNCTION_GELU == 11 &&
              LLMC_FUNCTION_GELU_TANH == 12 && LLMC_FUNCTION_ADD == 13 && LLMC_FUNCTION_SUB == 14 &&
              LLMC_FUNCTION_MUL == 15 && LLMC_FUNCTION_DIV == 16 && LLMC_FUNCTION_MIN == 17 &&
              LLMC_FUNCTION_MAX == 18);
static_assert(LLMC_MATRIX_F32 == 0 && LLMC_MATRIX_F16 == 1 && LLMC_MATRIX_Q4 == 2 &&
              LLMC_MATRIX_CODED == 3 && LLMC_ZERO_NONE == 0 && LLMC_ZERO_INTEGER == 1 &&
              LLMC_ZERO_FLOAT == 2);

}  // namespace

void OpenClDevice::build_rows() {
  rows_program_ = build(kOpenClRows, "");
  norm_ = kernel(rows_program_, "norm_rows");
  quantize_ = kernel(rows_program_, "quantize_rows");
  unpack_ = kernel(rows_program_, "unpack_rows");
  elementwise_ = kernel(rows_program_, "elementwise");
}

/// Fails if the device's arithmetic does not round as docs/numerics.md requires, whatever it
/// declares.
void OpenClDevice::check_rounding() {
  // 1 + 2^-12, whose square rounds to 1 + 2^-11; the smallest normal number; 2^-24 as f16.
  const float in[] = {0x1.001p0f, 0x1.001p0f, -1, 3, 0x1p-126f, 0};
  std::uint32_t words[6];
  std::memcpy(words, in, sizeof words);
  words[5] = 1;
  constexpr std::uint32_t kExpected[] = {0x3A000000, 0x3A000400, 0x3EAAB555,
                                         0x3FDDB3D7, 0x00400000, 0x33800000};
  std::uint32_t out[6] = {};
  const Handle program_kernel = kernel(rows_program_, "rounding");
  Handle source = nullptr, results = nullptr;
  std::string failure;
  try {
    source = buffer(kReadOnly, sizeof words, nullptr);
    results = buffer(kReadWrite, sizeof out, nullptr);
    check(api_.EnqueueWriteBuffer(queue_, source, 1, 0, sizeof words, words, 0, nullptr, nullptr),
          "clEnqueueWriteBuffer");
    launch(program_kernel, {}, nullptr, source, results);
    check(api_.EnqueueReadBuffer(queue_, results, 1, 0, sizeof out, out, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    if (std::memcmp(out, kExpected, sizeof out) != 0)
      failure = "its arithmetic does not round as llmc's numerics require";
  } catch (const DeviceError& error) {
    failure = error.message;
  }
  api_.ReleaseKernel(program_kernel);
  for (const Handle memory : {source, results})
    if (memory != nullptr) api_.ReleaseMemObject(memory);
  if (!failure.empty()) throw DeviceError{failure};
}

Handle OpenClDevice::build(const std::string& source, const std::string& options) {
  std::int32_t code = 0;
  const char* text = source.c_str();
  const Handle program = api_.CreateProgramWithSource(context_, 1, &text, nullptr, &code);
  check(code, "clCreateProgramWithSource");
  code = api_.BuildProgram(program, 1, &id_, (kBuildOptions + options).c_str(), nullptr, nullptr);
  if (code == 0) return program;
  std::size_t bytes = 0;
  std::string log;
  if (api_.GetProgramBuildInfo(program, id_, kBuildLog, 0, nullptr, &bytes) == 0) {
    log.resize(bytes);
    if (api_.GetProgramBuildInfo(program, id_, kBuildLog, bytes, log.data(), nullptr) != 0)
      log.clear();
  }
  api_.ReleaseProgram(program);
  throw DeviceError{"cannot compile the kernels, OpenCL's code " + std::to_string(code) + ": " +
                    log.c_str()};
}

Handle OpenClDevice::kernel(Handle program, const char* name) {
  std::int32_t code = 0;
  const Handle made = api_.CreateKernel(program, name, &code);
  check(code, "clCreateKernel");
  return made;
}

const OpenClDevice::Program& OpenClDevice::product_program(const llmc_device_matrix& matrix) {
  const Format format{matrix.kind, matrix.bits, matrix.block, matrix.scale_bytes, matrix.zero};
  const auto [at, is_new] = programs_.try_emplace(format);
  Program& made = at->second;
  if (!is_new && made.gated != nullptr) return made;
  std::string options = " -DTOKENS=" + std::to_string(kProductRows);
  const auto define = [&](const char* name, unsigned value) {
    options += std::string(" -D") + name + "=" + std::to_string(value);
  };
  define("FORMAT", matrix.kind);
  if (matrix.kind == LLMC_MATRIX_CODED) {
    define("BITS", matrix.bits);
    define("BLOCK", matrix.block);
    define("SCALE_BYTES", matrix.scale_bytes);
    define("ZERO", matrix.zero);
  }
  if (made.program == nullptr)
    made.program = build(std::string(kOpenClRows) + kOpenClProducts, options);
  if (made.linear == nullptr) made.linear = kernel(made.program, "linear");
  made.gated = kernel(made.program, "gated_linear");
  for (const Handle built : {made.linear, made.gated}) {
    std::size_t largest = 0;
    check(api_.GetKernelWorkGroupInfo(built, id_, kKernelGroup, sizeof largest, &largest, nullptr),
          "clGetKernelWorkGroupInfo");
    while (made.group > largest && made.group > 8) made.group /= 2;
  }
  return made;
}

void OpenClDevice::enqueue(Handle kernel, Sizes global, const Sizes* local) {
  const std::size_t sizes[] = {global.x, global.y};
  const std::size_t group[] = {local == nullptr ? 1 : local->x, local == nullptr ? 1 : local->y};
  check(api_.EnqueueNDRangeKernel(queue_, kernel, 2, nullptr, sizes,
                                  local == nullptr ? nullptr : group, 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel");
}

}  // namespace llmc::hosted
