#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::importer {

/// How a file stores its weights, which the end of its name says: "_fp16", "_q4".
struct Storage {
  std::string_view suffix, why;  // reason for preferring such a file
};
/// The storages that exporters write, the most exact one first.
std::span<const Storage> storages();
/// Returns the name among `files` that is `stem`, the suffix of the most exact storage, and
/// ".onnx"; empty if there is none.
std::string best_named(const std::vector<std::string>& files, std::string_view stem);

}  // namespace llmc::importer
