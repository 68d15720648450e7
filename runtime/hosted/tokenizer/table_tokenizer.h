#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted {

/// Creates a tokenizer from `tables`. `keep` owns their memory; with nullptr, the tables must
/// outlive the tokenizer. Fails with LLMC_ERROR_FORMAT if they are invalid.
Outcome<std::unique_ptr<Tokenizer>> tokenizer_of_tables(std::span<const std::byte> tables,
                                                        std::shared_ptr<const void> keep,
                                                        const std::string& name);

}  // namespace llmc::hosted
