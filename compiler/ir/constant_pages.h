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

/// Releases the resident memory of the constant's mapped pages. The next read loads them again,
/// also in other threads at the same time. Useful after one pass over large weights.
void drop_pages(const Constant& constant);

/// Makes a view like make_mapped(), whose pages drop_pages() can release.
ConstantPtr make_mapped_file(ElementType element, std::vector<std::int64_t> dims,
                             std::shared_ptr<const MappedFile> file,
                             std::span<const std::byte> window, std::string name);

}  // namespace llmc::ir
