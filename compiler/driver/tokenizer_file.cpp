#include "compiler/driver/tokenizer_file.h"

#include <set>
#include <system_error>

namespace llmc::driver {

namespace fs = std::filesystem;

fs::path find_tokenizer(const fs::path& model) {
  std::error_code error;
  const fs::path folder = fs::is_directory(model, error) ? model : model.parent_path();
  // Exporters put graphs into a folder onnx/ below the tokenizer's.
  const bool below = fs::weakly_canonical(folder, error).filename() == "onnx";
  for (const auto& place : {folder, below ? folder / ".." : folder}) {
    for (const char* const name : {"tokenizer.txt", "tokenizer.model", "tokenizer.json"})
      if (fs::exists(place / name, error)) return place / name;
    std::set<fs::path> lists;  // in an order that is the same everywhere
    for (fs::directory_iterator it(place.empty() ? "." : place, error), end; !error && it != end;
         it.increment(error))
      if (it->path().extension() == ".tiktoken") lists.insert(it->path());
    if (!lists.empty()) return *lists.begin();
  }
  return {};
}

}  // namespace llmc::driver
