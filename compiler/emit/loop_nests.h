#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/emit/dim_names.h"
#include "compiler/plan/program.h"

namespace llmc::emit {

/// Return the C++ type that stores an element, and the type in which arithmetic on it is done.
std::string_view stored_type(ir::ElementType element);
std::string_view computed_type(ir::ElementType element);

/// Returns the C++ call of a kernel in templates/llmc/function/ with these arguments, without a
/// semicolon; `numbers` is the result of number_texts(). Named scalars become a config, such as
/// "{.m = 3, .k = 8}"; lists of sizes follow it.
std::string call_text(const plan::CallStage& stage, std::span<const std::string> buffers,
                      std::span<const std::string> numbers);
/// Returns the C++ expression for the input of linear_rows(). `source` is the expression for its
/// source buffer.
std::string windows_text(const plan::LinearStage& stage, const std::string& source,
                         const DimNames& dims);
/// Returns the arguments of a call that are not buffers (CallStage::numbers) as C++ expressions.
std::vector<std::string> number_texts(const plan::CallStage& stage, const DimNames& dims);

/// The loop nests of an emitted source. Each is a C++ function. Stages whose nests differ only in
/// their buffers, such as those of different layers, share one function.
class LoopNests {
 public:
  explicit LoopNests(const plan::Program& program) : program_(program), dims_(program) {}

  struct Call {
    std::string function;
    /// The buffers that it reads, then the buffer that it writes.
    std::vector<plan::BufferArgument> arguments;
    /// Number of iterations of the outermost loop. The range of iterations to execute is passed in
    /// two more arguments. 0: the program is a decoder, or the loop is too short for several
    /// workers; the function has no range arguments.
    plan::Size iterations = 0;
    std::vector<std::string> sizes;  // variables of open dims, which are the last arguments
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
