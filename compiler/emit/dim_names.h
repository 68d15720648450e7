#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/plan/program.h"

namespace llmc::emit {

/// Identifiers of the open dims of a plain graph: first the dims that a call sets, then the
/// quotients. The identifiers are derived from the model's symbols. They are unique, consist of
/// lower-case letters, digits and underscores, and begin with a letter.
class DimNames {
 public:
  explicit DimNames(const plan::Program& program);

  /// Return the dims, and their identifiers in the same order.
  const std::vector<plan::OpenDimPtr>& dims() const { return dims_; }
  const std::vector<std::string>& identifiers() const { return identifiers_; }
  /// Returns the size as text for comments: "4 * sequence + 1".
  std::string plain_text(const plan::Size& size) const;
  /// Returns the size as a C++ expression of local variables: "4 * n_sequence + 1".
  std::string text(const plan::Size& size) const;
  /// Returns text(size) in parentheses if it is a sum, for use as a factor.
  std::string factor(const plan::Size& size) const;
  /// Returns declarations of the variables of quotients, which follow from the other variables.
  std::string quotient_lines() const;
  /// Returns the variable of a dim. The prefix avoids conflicts with keywords, kernels and other
  /// variables.
  static std::string variable(const std::string& identifier) { return "n_" + identifier; }

 private:
  std::vector<plan::OpenDimPtr> dims_;
  std::vector<std::string> identifiers_;
  std::map<const plan::OpenDim*, std::string> by_dim_;
};

}  // namespace llmc::emit
