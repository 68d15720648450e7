#include "runtime/hosted/model_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "llmc/arena.h"
#include "llmc/grammar.h"

namespace llmc::hosted {
namespace {

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

/// Looks up `symbol`. If it is missing, records this.
template <class Pointer>
void resolve(void* handle, const std::string& symbol, Pointer& pointer, std::string& missing) {
  void* const address = ::dlsym(handle, symbol.c_str());
  static_assert(sizeof address == sizeof pointer);
  std::memcpy(&pointer, &address, sizeof pointer);
  if (address == nullptr) missing += (missing.empty() ? "" : ", ") + symbol;
}

void keep_message(void* user, int, const char* text) {
  *static_cast<std::string*>(user) = text;
}

}  // namespace

Outcome<std::unique_ptr<ModelLibrary>> ModelLibrary::open(const std::filesystem::path& path,
                                                          std::string_view name) {
  if (!is_identifier(name))
    return Failure{LLMC_ERROR_ARGUMENT, "the model's name must be a C identifier"};
  std::unique_ptr<ModelLibrary> library(new ModelLibrary);
  // dlopen would search a name without a slash in the system's library folders.
  std::error_code unknown;
  const std::filesystem::path file = std::filesystem::absolute(path, unknown);
  if (unknown) return Failure{LLMC_ERROR_FILE, path.string() + ": " + unknown.message()};
  library->handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    const char* reason = ::dlerror();
    return Failure{LLMC_ERROR_FILE, std::string("cannot load the compiled model: ") +
                                        (reason != nullptr ? reason : path.c_str())};
  }
  void* const handle = library->handle_;
  LibraryApi& api = library->api_;
  const std::string prefix(name);
  std::string missing;
  resolve(handle, prefix + "_model", library->model_, missing);
  resolve(handle, prefix + "_init", library->init_, missing);
#define LLMC_RESOLVE(name) resolve(handle, "llmc_" #name, api.name, missing);
  LLMC_LIBRARY_FUNCTIONS(LLMC_RESOLVE)
#undef LLMC_RESOLVE
  if (!missing.empty()) return Failure{LLMC_ERROR_FORMAT, path.string() + ": lacks " + missing};
  const llmc_model& model = *library->model_;
  if (model.abi != LLMC_MODEL_ABI || model.size != sizeof(llmc_model))
    return Failure{LLMC_ERROR_VERSION, path.string() + ": compiled by another version of llmc"};
  // The header contains the size of the tables; llmc_grammar_init checks the rest.
  if (const void* const tables = ::dlsym(handle, (prefix + "_grammar").c_str())) {
    llmc_grammar_header header;
    std::memcpy(&header, tables, sizeof header);
    library->grammar_ = {static_cast<const std::byte*>(tables), header.bytes};
  }
  return library;
}

ModelLibrary::~ModelLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Outcome<std::unique_ptr<LibrarySession>> ModelLibrary::start(const llmc_config& config,
                                                             bool huge_pages) const {
  std::unique_ptr<LibrarySession> session(new LibrarySession);
  session->api_ = &api_;
  if (model_->arena_bytes == 0 || model_->arena_bytes > SIZE_MAX / 2)
    return Failure{LLMC_ERROR_MODEL, llmc_status_text(LLMC_ERROR_MODEL)};
  const auto bytes = static_cast<std::size_t>(model_->arena_bytes);
  auto arena = Arena::allocate(bytes, huge_pages);
  if (!arena) {
    return Failure{arena.failure().status, "no memory for an arena: " + arena.failure().message};
  }
  session->arena_ = *std::move(arena);
  llmc_config own = config;
  if (own.log == nullptr) {
    own.log = keep_message;
    own.log_user = &session->message_;
  }
  if (const llmc_status status =
          init_(&session->session_, session->arena_.memory().data(), bytes, &own)) {
    const std::string& said = session->message_;
    return Failure{status, said.empty() ? api_.status_text(status) : said};
  }
  return session;
}

}  // namespace llmc::hosted
