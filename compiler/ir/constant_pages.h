#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/support/mapped_file.h"

namespace llmc::ir {

/// A constant behind which there may be mapped files.
class PagedConstant {
 public:
  virtual ~PagedConstant() = default;
  virtual void drop_pages() const = 0;
};

/// Gives memory that holds pages of the constant's files back to the system until they are read
/// again: for who walks through large weights once. Other threads may read meanwhile.
void drop_pages(const Constant& constant);

/// make_mapped of a file whose pages can be dropped.
ConstantPtr make_mapped_file(ElementType element, std::vector<std::int64_t> dims,
                             std::shared_ptr<const MappedFile> file,
                             std::span<const std::byte> window, std::string name);

}  // namespace llmc::ir
