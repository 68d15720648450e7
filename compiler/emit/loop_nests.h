#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/emit/dim_names.h"
#include "compiler/plan/program.h"

namespace llmc::emit {

/// C++ types of elements, as they are stored and as they are computed.
std::string_view stored_type(ir::ElementType element);
std::string_view computed_type(ir::ElementType element);

/// The call of a kernel of templates/llmc/function/ with these buffers and numbers, without a
/// semicolon.
std::string call_text(const plan::CallStage& stage, std::span<const std::string> buffers,
                      std::span<const std::string> numbers);
/// The text of each number of a call.
std::vector<std::string> number_texts(const plan::CallStage& stage, const DimNames& dims);

/// The loop nests of an emitted source, each a C++ function. Stages whose nests differ in nothing
/// but the buffers share one, as the layers of a model do.
class LoopNests {
 public:
  explicit LoopNests(const plan::Program& program) : program_(program), dims_(program.open_dims) {}

  struct Call {
    std::string function;
    std::vector<plan::BufferArgument> arguments;  // the buffers it reads, then the one it writes
    /// Iterations of the outermost loop, which takes its range as two more arguments; 0: it is not
    /// worth several workers, and the function takes none. Of plain graphs.
    plan::Size iterations = 0;
    std::vector<std::string> sizes;  // variables of open dims, the last arguments
  };
  /// The loop nest of a stage: a new function or one that is there.
  Call add(const plan::MapStage& stage);
  /// The functions, in order of first use.
  const std::string& text() const { return text_; }
  const DimNames& dims() const { return dims_; }

 private:
  const plan::Program& program_;
  const DimNames dims_;
  std::string text_;
  std::map<std::string, std::string> known_;  // parameters and body -> name
};

}  // namespace llmc::emit
