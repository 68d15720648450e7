#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/function.h"

namespace llmc::emit {

/// C++ types of elements, as they are stored and as they are computed.
std::string_view stored_type(ir::ElementType element);
std::string_view computed_type(ir::ElementType element);

/// Loop nests of an emitted function. Stages whose loops differ in nothing but the buffers share
/// one, as the layers of a model do.
class FunctionLoops {
 public:
  explicit FunctionLoops(const plan::FunctionProgram& program) : program_(program) {}

  struct Call {
    std::string function;
    std::vector<plan::BufferArgument> arguments;  // the buffers it reads, then the one it writes
  };
  /// The loop nest of a stage: a new function or one that is there.
  Call add(const plan::MapStage& stage);
  /// The functions, in order of first use.
  const std::string& text() const { return text_; }

 private:
  const plan::FunctionProgram& program_;
  std::string text_;
  std::map<std::string, std::string> known_;  // parameters and body -> name
};

}  // namespace llmc::emit
