#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/emit/dim_names.h"
#include "compiler/plan/program.h"

namespace llmc::emit {

/// Return the C++ type of an element as it is stored and as it is computed.
std::string_view stored_type(ir::ElementType element);
std::string_view computed_type(ir::ElementType element);

/// Returns the call of a kernel in templates/llmc/function/ with these buffers and numbers, without
/// a semicolon.
std::string call_text(const plan::CallStage& stage, std::span<const std::string> buffers,
                      std::span<const std::string> numbers);
/// Returns the text of each number of a call.
std::vector<std::string> number_texts(const plan::CallStage& stage, const DimNames& dims);

/// The loop nests of an emitted source, each a C++ function. Stages whose nests differ only in
/// their buffers share one function, as the layers of a model do.
class LoopNests {
 public:
  explicit LoopNests(const plan::Program& program) : program_(program), dims_(program.open_dims) {}

  struct Call {
    std::string function;
    std::vector<plan::BufferArgument>
        arguments;  // the buffers that it reads, then the buffer that it writes
    /// Iterations of the outermost loop. The function takes the range of iterations as two more
    /// arguments. 0: the loop is too short for several workers, and the function has no range
    /// arguments. Plain graphs only.
    plan::Size iterations = 0;
    std::vector<std::string> sizes;  // variables of open dims: the last arguments
  };
  /// Returns the call of a stage's loop nest. Reuses an identical function if there is one.
  Call add(const plan::MapStage& stage);
  /// Returns the functions in order of first use.
  const std::string& text() const { return text_; }
  const DimNames& dims() const { return dims_; }

 private:
  const plan::Program& program_;
  const DimNames dims_;
  std::string text_;
  std::map<std::string, std::string> known_;  // parameters and body -> function name
};

}  // namespace llmc::emit
