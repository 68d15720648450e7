#pragma once

#include <memory>
#include <string>

#include "llmc/hosted.h"
#include "runtime/hosted/guarded.h"
#include "runtime/hosted/tokenizer.h"

struct llmc_tokenizer {
  std::unique_ptr<llmc::hosted::Tokenizer> tokenizer;
};

namespace llmc::hosted {

/// Passes a loaded tokenizer to a C caller, or the message of a failure. Returns the status.
llmc_status hand_out_tokenizer(Outcome<std::unique_ptr<Tokenizer>> loaded,
                               llmc_tokenizer** tokenizer, char* message,
                               std::size_t message_bytes);

}  // namespace llmc::hosted
