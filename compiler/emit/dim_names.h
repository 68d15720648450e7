#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/size.h"

namespace llmc::emit {

/// Identifiers of the open dims of a plain graph, derived from the model's symbols. They are
/// unique, consist of lower-case letters, digits and underscores, and begin with a letter.
class DimNames {
 public:
  explicit DimNames(std::span<const plan::OpenDimPtr> dims);

  /// Returns the identifiers in the order of the dims.
  const std::vector<std::string>& identifiers() const { return identifiers_; }
  /// Returns the size as text for comments: "4 * sequence + 1".
  std::string plain_text(const plan::Size& size) const;
  /// Returns the size as a C++ expression of local variables: "4 * n_sequence + 1".
  std::string text(const plan::Size& size) const;
  /// Returns text(size) in parentheses if it is a sum, for use as a factor.
  std::string factor(const plan::Size& size) const;
  /// Returns the variable of a dim. The prefix avoids conflicts with keywords, kernels and other
  /// variables.
  static std::string variable(const std::string& identifier) { return "n_" + identifier; }

 private:
  std::vector<std::string> identifiers_;
  std::map<const plan::OpenDim*, std::string> by_dim_;
};

}  // namespace llmc::emit
