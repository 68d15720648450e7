#include "llmc/hosted.h"
#include "llmc/model.h"
#include "runtime/hosted/guarded.h"
#include "runtime/hosted/huge_pages.h"
#include "runtime/hosted/pool_c_api.h"

using namespace llmc::hosted;

extern "C" {

size_t llmc_huge_page_bytes(void) {
  std::size_t bytes = 0;
  guarded([&] {
    if (const auto page = huge_page_bytes()) bytes = *page;
    return LLMC_OK;
  });
  return bytes;
}

const void* llmc_embedded_weights(const llmc_model* model, size_t* bytes) {
  const bool known = model != nullptr && model->abi == LLMC_MODEL_ABI &&
                     model->size == sizeof *model && model->weights != nullptr;
  if (bytes != nullptr) *bytes = known ? static_cast<std::size_t>(model->weights_bytes) : 0;
  return known ? model->weights : nullptr;
}

llmc_status llmc_move_to_huge_pages(const void* data, size_t bytes, llmc_pool* pool,
                                    size_t* huge_bytes, char* message, size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (huge_bytes != nullptr) *huge_bytes = 0;
  if (data == nullptr) return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    const HugePageMove done = move_to_huge_pages({static_cast<const std::byte*>(data), bytes},
                                                 pool == nullptr ? nullptr : pool->pool.get());
    if (huge_bytes != nullptr) *huge_bytes = done.huge;
    if (!done.failure) return LLMC_OK;
    copy_message(done.failure->message, message, message_bytes);
    return done.failure->status;
  });
}

llmc_status llmc_arena_create(size_t bytes, int huge_pages, void** arena) {
  if (arena == nullptr || bytes == 0) return LLMC_ERROR_ARGUMENT;
  *arena = nullptr;
  return guarded([&] {
    auto made = Arena::allocate(bytes, huge_pages != 0);
    if (!made) return made.failure().status;
    *arena = made->release().data();
    return LLMC_OK;
  });
}

void llmc_arena_free(void* arena, size_t bytes) {
  if (arena != nullptr) Arena::free({static_cast<std::byte*>(arena), bytes});
}

}  // extern "C"
