#include "compiler/exec/dim_sizes.h"

#include <fmt/format.h>

#include "compiler/support/check.h"

namespace llmc::exec {

Result<std::map<std::string, std::int64_t>> dim_sizes(const plan::Program& program,
                                                      std::span<const ir::ConstantPtr> inputs) {
  LLMC_CHECK(inputs.size() == program.inputs.size());
  const auto other_type = [](const plan::Port& port) {
    return failure(
        ErrorKind::kBadInput,
        fmt::format("the type of input '{}' differs from the function's", printable(port.name)));
  };
  std::map<std::string, std::int64_t> sizes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const plan::Port& port = program.inputs[i];
    if (inputs[i]->dims().size() != port.dims.size()) return other_type(port);
    for (std::size_t d = 0; d < port.dims.size(); ++d)
      for (const plan::OpenDimPtr& dim : program.open_dims)
        if (port.dims[d] == plan::Size(dim)) sizes.try_emplace(dim->name, inputs[i]->dims()[d]);
  }
  for (const plan::OpenDimPtr& dim : program.open_dims) {
    const auto found = sizes.find(dim->name);
    if (found == sizes.end())
      return failure(ErrorKind::kUnsupported,
                     fmt::format("no input has a dim that is '{}' alone", printable(dim->name)));
    if (found->second < dim->range.min || found->second > dim->range.max)
      return failure(ErrorKind::kBadInput,
                     fmt::format("'{}' is {} and not in {}..{}", printable(dim->name),
                                 found->second, dim->range.min, dim->range.max));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const plan::Port& port = program.inputs[i];
    if (inputs[i]->element() != port.element || inputs[i]->dims() != port.dims_at(sizes))
      return other_type(port);
  }
  return sizes;
}

std::vector<std::int64_t> sizes_in_order(const plan::Program& program,
                                         const std::map<std::string, std::int64_t>& sizes) {
  std::vector<std::int64_t> result;
  for (const plan::OpenDimPtr& dim : program.open_dims) result.push_back(sizes.at(dim->name));
  return result;
}

}  // namespace llmc::exec
