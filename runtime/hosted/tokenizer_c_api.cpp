#include "runtime/hosted/tokenizer_c_api.h"

#include <algorithm>
#include <cstring>

using namespace llmc::hosted;

struct llmc_decoder {
  llmc_decoder(const Tokenizer& tokenizer, bool at_start) : decoder(tokenizer, at_start) {}
  StreamDecoder decoder;
  std::string text;
};

namespace {

void hand_out(const std::string& from, const char** text, std::size_t* bytes) {
  *text = from.c_str();
  if (bytes != nullptr) *bytes = from.size();
}

}  // namespace

namespace llmc::hosted {

llmc_status hand_out_tokenizer(Outcome<std::unique_ptr<Tokenizer>> loaded,
                               llmc_tokenizer** tokenizer, char* message,
                               std::size_t message_bytes) {
  if (!loaded) {
    copy_message(loaded.failure().message, message, message_bytes);
    return loaded.failure().status;
  }
  *tokenizer = new llmc_tokenizer{std::move(*loaded)};
  return LLMC_OK;
}

}  // namespace llmc::hosted

extern "C" {

llmc_status llmc_tokenizer_from_tables(const void* tables, size_t bytes, llmc_tokenizer** tokenizer,
                                       char* message, size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (tables == nullptr || tokenizer == nullptr ||
      reinterpret_cast<std::uintptr_t>(tables) % 8 != 0)
    return LLMC_ERROR_ARGUMENT;
  *tokenizer = nullptr;
  return guarded([&] {
    return hand_out_tokenizer(
        Tokenizer::from_tables({static_cast<const std::byte*>(tables), bytes}, "the tokenizer"),
        tokenizer, message, message_bytes);
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
                                .parse_special = (flags & LLMC_ENCODE_SPECIAL) != 0,
                                .add_suffix = (flags & LLMC_ENCODE_SUFFIX) != 0};
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
