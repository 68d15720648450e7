#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/toolchain.h"
#include "compiler/support/result.h"

namespace llmc::bench {

/// A function of an emitted source, compiled for a target that this machine can run, with the
/// compiler flags of models. Unloaded on destruction.
class LoadedSource {
 public:
  /// Compiles and loads `source`. `function`: the function's name. `cflags` are appended to clang's
  /// arguments. `tiles`: as for write_tiles(), or nullptr. Fails with kToolchain if clang or the
  /// loader fails.
  static Result<std::unique_ptr<LoadedSource>> compile(const driver::Toolchain& toolchain,
                                                       const target::Target& target,
                                                       const std::string& source,
                                                       const char* function,
                                                       const std::vector<std::string>& cflags,
                                                       const std::string* tiles = nullptr);
  LoadedSource(const LoadedSource&) = delete;
  LoadedSource& operator=(const LoadedSource&) = delete;
  ~LoadedSource();

  template <class Function>
  Function function() const {
    Function result;
    static_assert(sizeof result == sizeof address_);
    std::memcpy(&result, &address_, sizeof result);
    return result;
  }

 private:
  LoadedSource() = default;

  void* handle_ = nullptr;
  void* address_ = nullptr;
};

}  // namespace llmc::bench
