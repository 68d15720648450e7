#include "runtime/hosted/device/opencl_api.h"

#include <dlfcn.h>

#include <string>

namespace llmc::hosted::opencl {
namespace {

Outcome<Api> resolve_all() {
  // The library is never unloaded: threads of drivers may still run its code.
  void* const library = ::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Failure{.status = LLMC_ERROR_DEVICE,
                   .message = "cannot load libOpenCL.so.1, the OpenCL loader",
                   .hint = "install ocl-icd-libopencl1 and the OpenCL driver of your device"};
  Api api;
  std::string missing;
#define LLMC_OPENCL_RESOLVE(name, ...)                      \
  if (void* const found = ::dlsym(library, "cl" #name)) {   \
    api.name = reinterpret_cast<decltype(api.name)>(found); \
  } else if (missing.empty()) {                             \
    missing = "cl" #name;                                   \
  }
  LLMC_OPENCL_FUNCTIONS(LLMC_OPENCL_RESOLVE)
#undef LLMC_OPENCL_RESOLVE
  if (!missing.empty()) return Failure{LLMC_ERROR_DEVICE, "libOpenCL.so.1 has no " + missing};
  return api;
}

}  // namespace

void check(std::int32_t code, const char* what) {
  if (code != 0)
    throw DeviceError{std::string(what) + " fails with OpenCL's code " + std::to_string(code)};
}

Outcome<const Api*> load_api() {
  static const Outcome<Api> loaded = resolve_all();
  if (!loaded) return loaded.failure();
  return &*loaded;
}

}  // namespace llmc::hosted::opencl
