#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/hosted/device/opencl_device.h"
#include "runtime/hosted/device/opencl_formats.h"
#include "runtime/hosted/device/opencl_matrix.h"
#include "runtime/hosted/device/opencl_products.h"
#include "runtime/hosted/device/opencl_rows.h"

/// Compiles and tests the kernels of the device.
namespace llmc::hosted {
namespace {

using namespace opencl;

constexpr char kBuildOptions[] =
    "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -DBYTE_PRODUCTS=";

// The OpenCL sources contain these numbers as literals.
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

void OpenClDevice::release_rows() {
  for (Handle* made : {&norm_, &quantize_, &unpack_, &elementwise_}) {
    if (*made != nullptr) api_.ReleaseKernel(*made);
    *made = nullptr;
  }
  if (rows_program_ != nullptr) api_.ReleaseProgram(rows_program_);
  rows_program_ = nullptr;
}

/// Throws if the device's arithmetic is not that of docs/numerics.md, whatever it declares.
void OpenClDevice::check_arithmetic() {
  // 1 + 2^-12, whose square rounds to 1 + 2^-11; the smallest normal number; 2^-24 as f16; bytes
  // 200, 1, 128, 255 (without signs), and -128, 127, -2, -127.
  const float in[8] = {0x1.001p0f, 0x1.001p0f, -1, 3, 0x1p-126f};
  std::uint32_t words[8];
  std::memcpy(words, in, sizeof words);
  words[5] = 1;
  words[6] = 0xFF8001C8;
  words[7] = 0x81FE7F80;
  constexpr std::uint32_t kExpected[] = {0x3A000000,
                                         0x3A000400,
                                         0x3EAAB555,
                                         0x3FDDB3D7,
                                         0x00400000,
                                         0x33800000,
                                         std::uint32_t{0} - 58107,
                                         7685};
  std::uint32_t out[std::size(kExpected)] = {};
  const Handle program_kernel = kernel(rows_program_, "arithmetic");
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
      failure = "its arithmetic is not what llmc's numerics require";
  } catch (const DeviceError& error) {
    failure = error.message;
  }
  api_.ReleaseKernel(program_kernel);
  for (const Handle memory : {source, results})
    if (memory != nullptr) api_.ReleaseMemObject(memory);
  if (!failure.empty()) throw DeviceError{failure};
}

/// Compiles a program, or loads it from the cache of compiled kernels.
Handle OpenClDevice::build(const std::string& source, const std::string& more_options) {
  const std::string options =
      kBuildOptions + std::to_string(static_cast<int>(byte_products_)) + more_options;
  const std::uint64_t key = hash_of(name_ + "\n" + versions_ + "\n" + options + "\n" + source);
  if (const Handle loaded = load_program(key, options)) return loaded;
  std::int32_t code = 0;
  const char* text = source.c_str();
  const Handle program = api_.CreateProgramWithSource(context_, 1, &text, nullptr, &code);
  check(code, "clCreateProgramWithSource");
  code = api_.BuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr);
  if (code == 0) {
    keep_program(key, program);
    return program;
  }
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

/// Loads a compiled program from the cache. Returns nullptr if it is not there, or if the driver
/// rejects it.
Handle OpenClDevice::load_program(std::uint64_t key, const std::string& options) {
  const std::string* const kept = kernels_.find(key);
  if (kept == nullptr) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(kept->data());
  const std::size_t size = kept->size();
  std::int32_t status = 0, code = 0;
  const Handle program =
      api_.CreateProgramWithBinary(context_, 1, &id_, &size, &bytes, &status, &code);
  if (code != 0) return nullptr;
  if (status == 0 && api_.BuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr) == 0)
    return program;
  api_.ReleaseProgram(program);
  return nullptr;
}

void OpenClDevice::keep_program(std::uint64_t key, Handle program) {
  std::size_t size = 0;
  if (!kernels_.enabled() ||
      api_.GetProgramInfo(program, kProgramBinarySizes, sizeof size, &size, nullptr) != 0 ||
      size == 0)
    return;
  try {
    std::string binary(size, '\0');
    char* bytes = binary.data();
    if (api_.GetProgramInfo(program, kProgramBinaries, sizeof bytes, &bytes, nullptr) == 0)
      kernels_.add(key, std::move(binary));
  } catch (...) {  // out of memory: the program is not cached
  }
}

Handle OpenClDevice::kernel(Handle program, const char* name) {
  std::int32_t code = 0;
  const Handle made = api_.CreateKernel(program, name, &code);
  check(code, "clCreateKernel");
  return made;
}

const OpenClDevice::Program& OpenClDevice::product_program(const llmc_device_matrix& matrix) {
  const Format format{matrix.kind, matrix.bits, matrix.block, matrix.scale_bytes, matrix.zero};
  if (const auto found = programs_.find(format); found != programs_.end()) return found->second;
  bool by_matrix = matrix_products_ != MatrixProducts::kNone && matrix.kind >= LLMC_MATRIX_Q4 &&
                   largest_group_ == kMatrixGroupY;
  // A kernel may need so many registers that its groups must be smaller than the device's largest.
  for (std::size_t group = largest_group_;;) {
    const bool last = !by_matrix && group == kMinGroupY;
    try {
      const Program made = build_products(matrix, group, by_matrix);
      if (fits(made) || last) return programs_.emplace(format, made).first->second;
      release(made);
    } catch (const DeviceError&) {
      if (kernels_.forget()) continue;  // try again, with programs compiled from source
      if (last) throw;
    }
    if (by_matrix) {
      by_matrix = false;
    } else {
      group /= 2;
    }
  }
}

MatrixProducts OpenClDevice::matrix_products() const {
  for (const auto& [format, program] : programs_)
    if (std::get<0>(format) >= LLMC_MATRIX_Q4 && !program.by_matrix) return MatrixProducts::kNone;
  return matrix_products_;
}

OpenClDevice::Program OpenClDevice::build_products(const llmc_device_matrix& matrix,
                                                   std::size_t group, bool by_matrix) {
  std::string options;
  const auto define = [&](const char* name, std::size_t value) {
    options += std::string(" -D") + name + "=" + std::to_string(value);
  };
  define("FORMAT", matrix.kind);
  if (matrix.kind == LLMC_MATRIX_CODED) {
    define("BITS", matrix.bits);
    define("BLOCK", matrix.block);
    define("SCALE_BYTES", matrix.scale_bytes);
    define("ZERO", matrix.zero);
  }
  define("GROUP_Y", group);
  if (by_matrix) define("MATRIX_PRODUCTS", static_cast<std::size_t>(matrix_products_));
  Program made;
  made.group = group;
  made.by_matrix = by_matrix;
  try {
    made.program = build(std::string(kOpenClRows) + kOpenClFormats +
                             (by_matrix ? kOpenClMatrixProduct : kOpenClProduct) + kOpenClLinear,
                         options);
    made.linear = kernel(made.program, "linear");
    made.gated = kernel(made.program, "gated_linear");
    if (by_matrix) try_matrix(made);
  } catch (...) {
    release(made);
    throw;
  }
  return made;
}

/// Throws if the matrix instructions do not compute the same sums as ByteProducts.
void OpenClDevice::try_matrix(const Program& program) {
  const Handle trial = kernel(program.program, "try_matrix");
  const Sizes group{kGroupX, program.group};
  Handle results = nullptr;
  std::uint32_t wrong[kGroupX * kMatrixGroupY];
  std::ranges::fill(wrong, 1u);
  const bool done = attempt([&] {
    results = buffer(kReadWrite, sizeof wrong, nullptr);
    launch(trial, group, &group, results);
    check(api_.EnqueueReadBuffer(queue_, results, 1, 0, sizeof wrong, wrong, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
  });
  if (results != nullptr) api_.ReleaseMemObject(results);
  api_.ReleaseKernel(trial);
  if (!done) throw DeviceError{message_};
  if (std::ranges::count(wrong, 0u) != std::ssize(wrong))
    throw DeviceError{"its products of matrices are wrong"};
}

/// Returns whether the device can run the groups of both kernels.
bool OpenClDevice::fits(const Program& program) {
  for (const Handle made : {program.linear, program.gated}) {
    std::size_t largest = 0;
    check(api_.GetKernelWorkGroupInfo(made, id_, kKernelGroup, sizeof largest, &largest, nullptr),
          "clGetKernelWorkGroupInfo");
    if (largest < program.group * kGroupX) return false;
  }
  return true;
}

void OpenClDevice::release(const Program& program) {
  for (const Handle made : {program.linear, program.gated})
    if (made != nullptr) api_.ReleaseKernel(made);
  if (program.program != nullptr) api_.ReleaseProgram(program.program);
}

void OpenClDevice::enqueue(Handle kernel, Sizes global, const Sizes* local) {
  const std::size_t sizes[] = {global.x, global.y};
  const std::size_t group[] = {local == nullptr ? 1 : local->x, local == nullptr ? 1 : local->y};
  check(api_.EnqueueNDRangeKernel(queue_, kernel, 2, nullptr, sizes,
                                  local == nullptr ? nullptr : group, 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel");
}

}  // namespace llmc::hosted
