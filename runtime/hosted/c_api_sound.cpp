#include <algorithm>
#include <memory>

#include "llmc/hosted.h"
#include "runtime/hosted/audio/log_mel.h"
#include "runtime/hosted/audio/resample.h"
#include "runtime/hosted/audio/wav.h"
#include "runtime/hosted/guarded.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/tokenizer_c_api.h"

using namespace llmc::hosted;

namespace {

llmc_status hand_out(Outcome<Sound> sound, uint32_t rate, float** samples, size_t* n, char* message,
                     size_t message_bytes) {
  if (!sound) {
    copy_message(sound.failure().message, message, message_bytes);
    return sound.failure().status;
  }
  const std::vector<float> result = resample(sound->samples, sound->rate, rate);
  auto copy = std::make_unique<float[]>(result.size());
  std::ranges::copy(result, copy.get());
  *samples = copy.release();
  *n = result.size();
  return LLMC_OK;
}

}  // namespace

extern "C" {

llmc_status llmc_sound_read(const void* wav, size_t bytes, uint32_t rate, float** samples,
                            size_t* n, char* message, size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (wav == nullptr || samples == nullptr || n == nullptr || rate < kMinRate || rate > kMaxRate)
    return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    return hand_out(read_wav({static_cast<const std::byte*>(wav), bytes}, "the sound"), rate,
                    samples, n, message, message_bytes);
  });
}

llmc_status llmc_sound_load(const char* path, uint32_t rate, float** samples, size_t* n,
                            char* message, size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (path == nullptr || samples == nullptr || n == nullptr || rate < kMinRate || rate > kMaxRate)
    return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    const auto file = MappedWeights::open(path);
    if (!file) {
      copy_message(file.failure().message, message, message_bytes);
      return file.failure().status;
    }
    return hand_out(read_wav(file->bytes(), path), rate, samples, n, message, message_bytes);
  });
}

void llmc_sound_free(float* samples) {
  delete[] samples;
}

llmc_status llmc_log_mel(const float* samples, size_t n, size_t mels, size_t frames,
                         float* features) {
  if (samples == nullptr || features == nullptr || mels == 0 || mels > 1024 || frames < 2 ||
      frames > 1'000'000)
    return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    std::ranges::copy(log_mel({samples, n}, mels, frames), features);
    return LLMC_OK;
  });
}

}  // extern "C"
