// Implements the stop texts of hosted.h.
#include <string>
#include <vector>

#include "llmc/hosted.h"
#include "runtime/hosted/chat/stop_texts.h"
#include "runtime/hosted/guarded.h"
#include "runtime/hosted/tokenizer/utf8.h"

using namespace llmc::hosted;

struct llmc_stop_texts {
  std::vector<std::string> texts;
  StopTexts matcher;
  std::string shown;
};

extern "C" {

llmc_status llmc_stop_texts_create(const char* const* texts, size_t count,
                                   llmc_stop_texts** stop_texts) {
  if (stop_texts == nullptr || (texts == nullptr && count > 0)) return LLMC_ERROR_ARGUMENT;
  *stop_texts = nullptr;
  return guarded([&]() -> llmc_status {
    std::vector<std::string> copies;
    for (size_t i = 0; i < count; ++i) {
      if (texts[i] == nullptr || *texts[i] == '\0' || !is_utf8(texts[i]))
        return LLMC_ERROR_ARGUMENT;
      copies.emplace_back(texts[i]);
    }
    StopTexts matcher(copies);
    *stop_texts = new llmc_stop_texts{std::move(copies), std::move(matcher), {}};
    return LLMC_OK;
  });
}

void llmc_stop_texts_free(llmc_stop_texts* stop_texts) {
  delete stop_texts;
}

llmc_status llmc_stop_texts_add(llmc_stop_texts* stop_texts, const char* piece, size_t bytes,
                                const char** text, size_t* shown_bytes) {
  if (stop_texts == nullptr || text == nullptr || (piece == nullptr && bytes > 0))
    return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    stop_texts->shown = stop_texts->matcher.add({piece, bytes});
    *text = stop_texts->shown.c_str();
    if (shown_bytes != nullptr) *shown_bytes = stop_texts->shown.size();
    return LLMC_OK;
  });
}

int llmc_stop_texts_found(const llmc_stop_texts* stop_texts) {
  return stop_texts != nullptr && stop_texts->matcher.found();
}

llmc_status llmc_stop_texts_finish(llmc_stop_texts* stop_texts, const char** text, size_t* bytes) {
  if (stop_texts == nullptr || text == nullptr) return LLMC_ERROR_ARGUMENT;
  return guarded([&] {
    StopTexts fresh(stop_texts->texts);
    stop_texts->shown = stop_texts->matcher.finish();
    stop_texts->matcher = std::move(fresh);
    *text = stop_texts->shown.c_str();
    if (bytes != nullptr) *bytes = stop_texts->shown.size();
    return LLMC_OK;
  });
}

}  // extern "C"
