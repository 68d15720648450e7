#include "config.h"

#include "llmc/arena.h"
#include "llmc/device.h"
#include "message.h"

namespace llmc::core {
namespace {

bool aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % LLMC_ALIGNMENT == 0;
}

}  // namespace

llmc_status read_config(const llmc_config* given, llmc_config* config) {
  *config = llmc_config{};
  if (given == nullptr) {
    config->size = sizeof(llmc_config);
    return LLMC_OK;
  }
  // A size that is smaller than the first fields of the first version, or larger than kLargest,
  // cannot be valid.
  constexpr size_t kLargest = 65536;
  if (given->size < offsetof(llmc_config, parallel_for) || given->size > kLargest)
    return LLMC_ERROR_VERSION;
  const unsigned char* from = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(llmc_config); i < given->size; ++i)
    if (from[i] != 0) return LLMC_ERROR_VERSION;
  __builtin_memcpy(config, given,
                   given->size < sizeof(llmc_config) ? given->size : sizeof(llmc_config));
  config->size = sizeof(llmc_config);
  if (config->cores > LLMC_CORES_UNEVEN || config->full_context > LLMC_FULL_SLIDE ||
      config->begin > LLMC_BEGIN_EMPTY)
    return LLMC_ERROR_ARGUMENT;
  return LLMC_OK;
}

bool float_mode_is_default() {
#if defined(__x86_64__)
  constexpr unsigned kDenormalsAreZero = 1u << 6, kRounding = 3u << 13, kFlushToZero = 1u << 15;
  return (__builtin_ia32_stmxcsr() & (kDenormalsAreZero | kRounding | kFlushToZero)) == 0;
#elif defined(__aarch64__)
  // Bits of FPCR (Arm Architecture Reference Manual) that change results: FIZ, AH and NEP, FZ16,
  // RMode, FZ, DN, AHP. The trap enable bits do not.
  constexpr uint64_t kFlushInputs = 1u << 0, kAlternate = 1u << 1, kElementZero = 1u << 2;
  constexpr uint64_t kFlushHalfs = 1u << 19, kRounding = 3u << 22, kFlushToZero = 1u << 24;
  constexpr uint64_t kDefaultNan = 1u << 25, kAlternateHalf = 1u << 26;
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return (control & (kFlushInputs | kAlternate | kElementZero | kFlushHalfs | kRounding |
                     kFlushToZero | kDefaultNan | kAlternateHalf)) == 0;
#elif defined(__loongarch64)
  constexpr unsigned kRounding = 3u << 8;  // FCSR0.RM; LoongArch cannot flush to zero
  return (__builtin_loongarch_movfcsr2gr(0) & kRounding) == 0;
#else
#error "the floating-point modes of this architecture are not known"
#endif
}

llmc_status check_model(const llmc_model* model) {
  if (model->abi != LLMC_MODEL_ABI || model->size != sizeof(llmc_model)) return LLMC_ERROR_VERSION;
  const uint64_t row_floats = uint64_t{model->chunk} * model->hidden;
  const bool numbers = model->vocab > 0 && model->vocab <= INT32_MAX && model->hidden > 0 &&
                       model->hidden <= INT32_MAX && model->ctx > 0 && model->chunk > 0 &&
                       model->chunk <= INT32_MAX && model->kv_block > 0 && model->threads_max > 0 &&
                       model->sequences > 0 && model->pool_blocks > 0 && model->batch > 0 &&
                       model->batch <= model->chunk;
  const bool sound =
      numbers && model->kv_block_bytes % LLMC_ALIGNMENT == 0 &&
      model->kv_block_bytes >= LLMC_KV_TOKENS_BYTES(model->kv_block) &&
      model->scratch_bytes % LLMC_ALIGNMENT == 0 && model->hidden_offset % LLMC_ALIGNMENT == 0 &&
      model->hidden_offset <= model->scratch_bytes &&
      row_floats <= (model->scratch_bytes - model->hidden_offset) / sizeof(float) &&
      model->in_flight > 0 && model->in_flight <= LLMC_MAX_IN_FLIGHT &&
      (model->steps > 0) == (model->run_step != nullptr) &&
      (model->steps > 0) == (model->step_regions != nullptr) &&
      (model->steps > 0) == (model->run_in_flight != nullptr) && model->forward != nullptr &&
      (model->head != nullptr) == (model->shards == 0 || model->shard + 1 == model->shards) &&
      (model->shard == 0 || model->shard < model->shards) &&
      (model->shard == 0 || model->embedding_width > 0) && model->kv_save != nullptr &&
      model->kv_load != nullptr && model->prefix_tokens <= model->ctx &&
      (model->prefix_tokens == 0 || model->prefix_blocks != nullptr) &&
      (model->encode != nullptr) == (model->source_max > 0) &&
      (model->source_min > 0) == (model->source_max > 0) &&
      (model->sources > 0) == (model->source_max > 0) &&
      (model->source_vocab > 0) == (model->source_max > 0 && model->source_width == 0) &&
      model->source_min <= model->source_max && model->source_bytes % LLMC_ALIGNMENT == 0 &&
      (model->encode_image != nullptr) == (model->image_rows > 0) &&
      (model->image_rows == 0 || model->embedding_width > 0) && model->source_max <= INT32_MAX &&
      model->state_bytes % LLMC_ALIGNMENT == 0 &&
      (model->state_bytes == 0 || model->prefix_tokens == 0) && aligned(model->prefix_blocks) &&
      aligned(model->weights) && model->arena_bytes == llmc_arena_layout_of_model(model).total &&
      model->arena_bytes <= SIZE_MAX - LLMC_ALIGNMENT;
  static_assert(sizeof(llmc_state_header) == 128);
  return sound ? LLMC_OK : LLMC_ERROR_MODEL;
}

llmc_status check_device(const llmc_model& model, const llmc_config& config) {
  const llmc_device* const device = config.device;
  if (device == nullptr) return LLMC_OK;
  if (device->abi != LLMC_DEVICE_ABI || device->size != sizeof(llmc_device))
    return LLMC_ERROR_VERSION;
  if (device->name == nullptr || device->prepare == nullptr || device->submit == nullptr ||
      device->wait == nullptr || device->cancel == nullptr || device->release == nullptr)
    return LLMC_ERROR_ARGUMENT;
  if (model.steps > 0) return LLMC_OK;
  Message()
      .text("the model was compiled without --accelerate and has nothing for the device ")
      .text(device->name)
      .send(config, LLMC_LOG_ERROR);
  return LLMC_ERROR_DEVICE;
}

llmc_status find_weights(const llmc_model& model, const llmc_config& config,
                         const unsigned char** weights) {
  if (model.weights != nullptr) {
    *weights = model.weights;
    return LLMC_OK;
  }
  const auto* given = static_cast<const unsigned char*>(config.weights);
  if (given == nullptr) {
    Message()
        .text("this model's weights are in a file: pass its content as llmc_config.weights")
        .send(config, 0);
    return LLMC_ERROR_WEIGHTS;
  }
  if (!aligned(given)) {
    Message().text("the weights must be aligned to 64 bytes").send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_WEIGHTS;
  }
  llmc_weights_header header;
  if (config.weights_bytes < sizeof header ||
      config.weights_bytes - sizeof header != model.weights_bytes) {
    Message()
        .text("the weights have ")
        .number(config.weights_bytes)
        .text(" bytes; this model needs ")
        .number(model.weights_bytes + sizeof header)
        .send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_WEIGHTS;
  }
  __builtin_memcpy(&header, given, sizeof header);
  bool match = header.bytes == model.weights_bytes && header.hash == model.weights_hash;
  for (size_t i = 0; i < sizeof header.magic; ++i)
    match = match && header.magic[i] == LLMC_WEIGHTS_MAGIC[i];
  if (!match) {
    Message().text("these weights belong to another model").send(config, LLMC_LOG_ERROR);
    return LLMC_ERROR_WEIGHTS;
  }
  *weights = given + sizeof header;
  return LLMC_OK;
}

}  // namespace llmc::core
