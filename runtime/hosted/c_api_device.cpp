#include "llmc/hosted.h"
#include "runtime/hosted/device/opencl_device.h"
#include "runtime/hosted/device/reference_device.h"
#include "runtime/hosted/guarded.h"

using namespace llmc::hosted;

extern "C" {

llmc_status llmc_reference_device_create(uint32_t threads, const llmc_device** device) {
  if (device == nullptr) return LLMC_ERROR_ARGUMENT;
  *device = nullptr;
  return guarded([&] {
    auto made = ReferenceDevice::create(threads == 0 ? 1 : threads);
    if (!made) return made.failure().status;
    *device = &made->release()->device();
    return LLMC_OK;
  });
}

void llmc_reference_device_destroy(const llmc_device* device) {
  if (device != nullptr) delete static_cast<ReferenceDevice*>(device->user);
}

llmc_status llmc_opencl_device_create(const llmc_opencl_options* options,
                                      const llmc_device** device, char* message,
                                      size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (device == nullptr) return LLMC_ERROR_ARGUMENT;
  *device = nullptr;
  if (options != nullptr && options->size != sizeof *options) return LLMC_ERROR_VERSION;
  return guarded([&] {
    OpenClOptions chosen;
    if (options != nullptr) {
      chosen.copies = options->copies != 0;
      if (options->device != nullptr) chosen.device = options->device;
      if (options->kernels != nullptr) chosen.kernels = options->kernels;
    }
    auto made = OpenClDevice::create(chosen);
    if (!made) {
      const Failure& failed = made.failure();
      copy_message(failed.message + (failed.hint.empty() ? "" : ": " + failed.hint), message,
                   message_bytes);
      return failed.status;
    }
    *device = &made->release()->device();
    return LLMC_OK;
  });
}

const char* llmc_opencl_device_name(const llmc_device* device) {
  return device == nullptr ? "" : static_cast<OpenClDevice*>(device->user)->name().c_str();
}

uint64_t llmc_opencl_copied_bytes(const llmc_device* device) {
  return device == nullptr ? 0 : static_cast<OpenClDevice*>(device->user)->copied_bytes();
}

void llmc_opencl_device_destroy(const llmc_device* device) {
  if (device != nullptr) delete static_cast<OpenClDevice*>(device->user);
}

}  // extern "C"
