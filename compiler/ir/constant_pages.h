#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/support/mapped_file.h"

namespace llmc::ir {

/// A constant whose data may be in mapped files.
class PagedConstant {
 public:
  virtual ~PagedConstant() = default;
  virtual void drop_pages() const = 0;
};

/// Releases the memory of the constant's mapped pages until they are read again; useful after one
/// pass over large weights. Other threads may read meanwhile.
void drop_pages(const Constant& constant);

/// As make_mapped, for a file whose pages can be dropped.
ConstantPtr make_mapped_file(ElementType element, std::vector<std::int64_t> dims,
                             std::shared_ptr<const MappedFile> file,
                             std::span<const std::byte> window, std::string name);

}  // namespace llmc::ir
