#include <algorithm>
#include <cstring>
#include <new>

#include "llmc/hosted.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/thread_pool.h"
#include "runtime/hosted/tokenizer.h"

using namespace llmc::hosted;

struct llmc_pool {
  std::unique_ptr<ThreadPool> pool;
};

struct llmc_tokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
};

struct llmc_decoder {
  llmc_decoder(const Tokenizer& tokenizer, bool at_start) : decoder(tokenizer, at_start) {}
  StreamDecoder decoder;
  std::string text;
};

namespace {

/// What `body` returns; what it throws as a status.
template <class Body>
llmc_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {  // only allocation can fail here
    return LLMC_ERROR_MEMORY;
  }
}

void copy_message(const std::string& from, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t n = std::min(from.size(), bytes - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

void hand_out(const std::string& from, const char** text, std::size_t* bytes) {
  *text = from.c_str();
  if (bytes != nullptr) *bytes = from.size();
}

}  // namespace

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

llmc_status llmc_tokenizer_load(const char* path, llmc_tokenizer** tokenizer, char* message,
                                size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (path == nullptr || tokenizer == nullptr) return LLMC_ERROR_ARGUMENT;
  *tokenizer = nullptr;
  return guarded([&] {
    auto loaded = Tokenizer::load(path);
    if (!loaded) {
      copy_message(loaded.failure().message, message, message_bytes);
      return loaded.failure().status;
    }
    *tokenizer = new llmc_tokenizer{std::move(*loaded)};
    return LLMC_OK;
  });
}

void llmc_tokenizer_free(llmc_tokenizer* tokenizer) {
  delete tokenizer;
}

size_t llmc_tokenizer_size(const llmc_tokenizer* tokenizer) {
  return tokenizer == nullptr ? 0 : tokenizer->tokenizer->size();
}

int32_t llmc_tokenizer_bos(const llmc_tokenizer* tokenizer) {
  return tokenizer == nullptr ? -1 : tokenizer->tokenizer->bos().value_or(-1);
}

int llmc_tokenizer_is_stop(const llmc_tokenizer* tokenizer, int32_t id) {
  return tokenizer != nullptr && tokenizer->tokenizer->is_stop(id);
}

llmc_status llmc_tokenizer_encode(const llmc_tokenizer* tokenizer, const char* text, size_t bytes,
                                  unsigned flags, int32_t* ids, size_t capacity, size_t* count) {
  if (tokenizer == nullptr || (text == nullptr && bytes > 0) || count == nullptr ||
      (ids == nullptr && capacity > 0)) {
    return LLMC_ERROR_ARGUMENT;
  }
  *count = 0;
  return guarded([&] {
    const EncodeOptions options{.add_prefix = (flags & LLMC_ENCODE_PREFIX) != 0,
                                .parse_special = (flags & LLMC_ENCODE_SPECIAL) != 0};
    const auto encoded = tokenizer->tokenizer->encode({text, bytes}, options);
    *count = encoded.size();
    std::copy_n(encoded.begin(), std::min(capacity, encoded.size()), ids);
    return encoded.size() > capacity ? LLMC_ERROR_BUFFER : LLMC_OK;
  });
}

llmc_status llmc_decoder_create(const llmc_tokenizer* tokenizer, int at_start,
                                llmc_decoder** decoder) {
  if (tokenizer == nullptr || decoder == nullptr) return LLMC_ERROR_ARGUMENT;
  *decoder = nullptr;
  return guarded([&] {
    *decoder = new llmc_decoder(*tokenizer->tokenizer, at_start != 0);
    return LLMC_OK;
  });
}

void llmc_decoder_free(llmc_decoder* decoder) {
  delete decoder;
}

llmc_status llmc_decoder_add(llmc_decoder* decoder, int32_t id, const char** text, size_t* bytes) {
  if (decoder == nullptr || text == nullptr) return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    decoder->text = decoder->decoder.add(id);
    hand_out(decoder->text, text, bytes);
    return LLMC_OK;
  });
}

llmc_status llmc_decoder_finish(llmc_decoder* decoder, const char** text, size_t* bytes) {
  if (decoder == nullptr || text == nullptr) return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    decoder->text = decoder->decoder.finish();
    hand_out(decoder->text, text, bytes);
    return LLMC_OK;
  });
}

}  // extern "C"
