#include "llmc/hosted.h"
#include "runtime/hosted/guarded.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/pool_c_api.h"

using namespace llmc::hosted;

extern "C" {

uint32_t llmc_usable_cores(void) {
  return usable_cores();
}

llmc_status llmc_pool_create(uint32_t threads, llmc_pool** pool) {
  if (pool == nullptr) return LLMC_ERROR_ARGUMENT;
  *pool = nullptr;
  return guarded([&] {
    auto made = ThreadPool::create(threads == 0 ? usable_cores() : threads);
    if (!made) return made.failure().status;
    *pool = new llmc_pool{std::move(*made)};
    return LLMC_OK;
  });
}

void llmc_pool_destroy(llmc_pool* pool) {
  delete pool;
}

uint32_t llmc_pool_threads(const llmc_pool* pool) {
  return pool == nullptr ? 0 : pool->pool->threads();
}

void llmc_pool_parallel_for(void* pool, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {
  static_cast<llmc_pool*>(pool)->pool->parallel_for(fn, arg, n);
}

llmc_status llmc_map_weights(const char* path, const void** weights, size_t* bytes) {
  if (path == nullptr || weights == nullptr || bytes == nullptr) return LLMC_ERROR_ARGUMENT;
  *weights = nullptr;
  *bytes = 0;
  return guarded([&] {
    auto mapped = MappedWeights::open(path);
    if (!mapped) return mapped.failure().status;
    const std::span<const std::byte> content = mapped->release();
    *weights = content.data();
    *bytes = content.size();
    return LLMC_OK;
  });
}

void llmc_unmap_weights(const void* weights, size_t bytes) {
  if (weights != nullptr) MappedWeights::unmap({static_cast<const std::byte*>(weights), bytes});
}

}  // extern "C"
