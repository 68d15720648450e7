#include "llmc/hosted.h"
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

}  // extern "C"
