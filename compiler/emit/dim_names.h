#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/size.h"

namespace llmc::emit {

/// Identifiers of the open dims of a plain graph, made from the model's symbols: unique, lower-case
/// letters, digits and underscores, a letter first.
class DimNames {
 public:
  explicit DimNames(std::span<const plan::OpenDimPtr> dims);

  /// In the order of the dims.
  const std::vector<std::string>& identifiers() const { return identifiers_; }
  /// For comments: "4 * sequence + 1".
  std::string plain_text(const plan::Size& size) const;
  /// C++ expression of local variables: "4 * n_sequence + 1".
  std::string text(const plan::Size& size) const;
  /// The same as a factor: in parentheses if it is a sum.
  std::string factor(const plan::Size& size) const;
  /// The variable of a dim. Its prefix keeps it apart from keywords, kernels and other variables.
  static std::string variable(const std::string& identifier) { return "n_" + identifier; }

 private:
  std::vector<std::string> identifiers_;
  std::map<const plan::OpenDim*, std::string> by_dim_;
};

}  // namespace llmc::emit
