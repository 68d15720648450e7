#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::importer {

/// How a file stores its weights, as stated by a suffix of its name such as "_fp16" or "_q4".
struct Storage {
  std::string_view suffix, why;  // reason for preferring such a file
};
/// Returns the storages that exporters write, from most to least exact.
std::span<const Storage> storages();
/// Returns the name among `files` that consists of `stem`, a storage's suffix and ".onnx", with the
/// most exact storage; empty if there is none.
std::string best_named(const std::vector<std::string>& files, std::string_view stem);

}  // namespace llmc::importer
