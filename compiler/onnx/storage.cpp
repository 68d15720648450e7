#include "compiler/onnx/storage.h"

#include <algorithm>

namespace llmc::importer {
namespace {

constexpr Storage kStorages[] = {
    {"", "the unquantized model, which llmc quantizes itself (--quant)"},
    {"_fp32", "the unquantized model, which llmc quantizes itself (--quant)"},
    {"_fp16", "the most exact weights, which llmc quantizes itself (--quant)"},
    {"_bf16", "the most exact weights, which llmc quantizes itself (--quant)"},
    {"_q8", "the most exact weights"},
    {"_int8", "the most exact weights"},
    {"_uint8", "the most exact weights"},
    {"_quantized", "the most exact weights"},
    {"_q4", "the most exact weights"},
    {"_q4f16", "the most exact weights"},
};

}  // namespace

std::span<const Storage> storages() {
  return kStorages;
}

std::string best_named(const std::vector<std::string>& files, std::string_view stem) {
  for (const Storage& storage : kStorages) {
    std::string name = std::string(stem) + std::string(storage.suffix) + ".onnx";
    if (std::ranges::count(files, name) != 0) return name;
  }
  return {};
}

}  // namespace llmc::importer
