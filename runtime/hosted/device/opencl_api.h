#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/hosted/outcome.h"

/// The part of OpenCL 1.2 that the device `opencl` uses. The system's OpenCL loader
/// (libOpenCL.so.1) is loaded at run time, so that programs need it only when they create the
/// device. The values, and the names of the functions, are those of the specification.
namespace llmc::hosted::opencl {

using Handle = void*;  // a handle of any OpenCL object
using Bits = std::uint64_t;

enum Constant : std::uint32_t {
  kPlatformName = 0x0902,
  kDeviceType = 0x1000,
  kDeviceMaxGroup = 0x1004,
  kDeviceMaxAllocation = 0x1010,
  kDeviceSingleFp = 0x101B,
  kDeviceLittleEndian = 0x1026,
  kDeviceAvailable = 0x1027,
  kDeviceName = 0x102B,
  kDriverVersion = 0x102D,
  kDeviceVersion = 0x102F,
  kDeviceExtensions = 0x1030,
  kDeviceUnifiedMemory = 0x1035,
  kProgramBinarySizes = 0x1165,
  kProgramBinaries = 0x1166,
  kBuildLog = 0x1183,
  kKernelGroup = 0x11B0,
  kEventStatus = 0x11D3,
  kDeviceComputeMajor = 0x4000,  // of cl_nv_device_attribute_query
  kDeviceComputeMinor = 0x4001,
};
inline constexpr Bits kTypeCpu = 1 << 1, kTypeAll = 0xFFFFFFFF;
inline constexpr Bits kReadWrite = 1 << 0, kReadOnly = 1 << 2, kUseHostMemory = 1 << 3;
inline constexpr Bits kMapRead = 1 << 0, kMapWrite = 1 << 1;
inline constexpr Bits kFpDenormals = 1 << 0, kFpInfinities = 1 << 1, kFpToNearest = 1 << 2,
                      kFpDivision = 1 << 7;

/// Calls F(name without "cl", result type, parameter types) for each function.
#define LLMC_OPENCL_FUNCTIONS(F)                                                                 \
  F(GetPlatformIDs, std::int32_t, std::uint32_t, Handle*, std::uint32_t*)                        \
  F(GetPlatformInfo, std::int32_t, Handle, std::uint32_t, std::size_t, void*, std::size_t*)      \
  F(GetDeviceIDs, std::int32_t, Handle, Bits, std::uint32_t, Handle*, std::uint32_t*)            \
  F(GetDeviceInfo, std::int32_t, Handle, std::uint32_t, std::size_t, void*, std::size_t*)        \
  F(CreateContext, Handle, const std::intptr_t*, std::uint32_t, const Handle*, void*, void*,     \
    std::int32_t*)                                                                               \
  F(ReleaseContext, std::int32_t, Handle)                                                        \
  F(CreateCommandQueue, Handle, Handle, Handle, Bits, std::int32_t*)                             \
  F(ReleaseCommandQueue, std::int32_t, Handle)                                                   \
  F(CreateBuffer, Handle, Handle, Bits, std::size_t, void*, std::int32_t*)                       \
  F(ReleaseMemObject, std::int32_t, Handle)                                                      \
  F(CreateProgramWithSource, Handle, Handle, std::uint32_t, const char**, const std::size_t*,    \
    std::int32_t*)                                                                               \
  F(CreateProgramWithBinary, Handle, Handle, std::uint32_t, const Handle*, const std::size_t*,   \
    const unsigned char**, std::int32_t*, std::int32_t*)                                         \
  F(GetProgramInfo, std::int32_t, Handle, std::uint32_t, std::size_t, void*, std::size_t*)       \
  F(BuildProgram, std::int32_t, Handle, std::uint32_t, const Handle*, const char*, void*, void*) \
  F(GetProgramBuildInfo, std::int32_t, Handle, Handle, std::uint32_t, std::size_t, void*,        \
    std::size_t*)                                                                                \
  F(ReleaseProgram, std::int32_t, Handle)                                                        \
  F(CreateKernel, Handle, Handle, const char*, std::int32_t*)                                    \
  F(GetKernelWorkGroupInfo, std::int32_t, Handle, Handle, std::uint32_t, std::size_t, void*,     \
    std::size_t*)                                                                                \
  F(ReleaseKernel, std::int32_t, Handle)                                                         \
  F(SetKernelArg, std::int32_t, Handle, std::uint32_t, std::size_t, const void*)                 \
  F(EnqueueNDRangeKernel, std::int32_t, Handle, Handle, std::uint32_t, const std::size_t*,       \
    const std::size_t*, const std::size_t*, std::uint32_t, const Handle*, Handle*)               \
  F(EnqueueReadBuffer, std::int32_t, Handle, Handle, std::uint32_t, std::size_t, std::size_t,    \
    void*, std::uint32_t, const Handle*, Handle*)                                                \
  F(EnqueueWriteBuffer, std::int32_t, Handle, Handle, std::uint32_t, std::size_t, std::size_t,   \
    const void*, std::uint32_t, const Handle*, Handle*)                                          \
  F(EnqueueMapBuffer, void*, Handle, Handle, std::uint32_t, Bits, std::size_t, std::size_t,      \
    std::uint32_t, const Handle*, Handle*, std::int32_t*)                                        \
  F(EnqueueUnmapMemObject, std::int32_t, Handle, Handle, void*, std::uint32_t, const Handle*,    \
    Handle*)                                                                                     \
  F(EnqueueMarkerWithWaitList, std::int32_t, Handle, std::uint32_t, const Handle*, Handle*)      \
  F(EnqueueBarrierWithWaitList, std::int32_t, Handle, std::uint32_t, const Handle*, Handle*)     \
  F(Flush, std::int32_t, Handle)                                                                 \
  F(Finish, std::int32_t, Handle)                                                                \
  F(WaitForEvents, std::int32_t, std::uint32_t, const Handle*)                                   \
  F(GetEventInfo, std::int32_t, Handle, std::uint32_t, std::size_t, void*, std::size_t*)         \
  F(ReleaseEvent, std::int32_t, Handle)

/// Pointers to the functions; clGetPlatformIDs is named GetPlatformIDs.
struct Api {
#define LLMC_OPENCL_FIELD(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  LLMC_OPENCL_FUNCTIONS(LLMC_OPENCL_FIELD)
#undef LLMC_OPENCL_FIELD
};

/// Exception for a failed OpenCL call.
struct DeviceError {
  std::string message;
};

/// Throws a DeviceError with the name `what` of the call unless `code` is 0.
void check(std::int32_t code, const char* what);

/// Loads libOpenCL.so.1, which stays loaded. Fails with LLMC_ERROR_DEVICE if the system has none or
/// it lacks a function.
Outcome<const Api*> load_api();

}  // namespace llmc::hosted::opencl
