#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/support/mapped_file.h"

namespace llmc::ir {

/// Base of constants whose data may be in mapped files.
class PagedConstant {
 public:
  virtual ~PagedConstant() = default;
  /// Implements drop_pages() below.
  virtual void drop_pages() const = 0;
};

/// Releases the resident pages of the mapped files that contain the constant's data (whole files).
/// Does nothing for data that is not in mapped files. Reads, also concurrent ones, stay valid and
/// load the pages again. Useful after one pass over large weights.
void drop_pages(const Constant& constant);

/// Makes a view like make_mapped(), whose pages drop_pages() can release.
ConstantPtr make_mapped_file(ElementType element, std::vector<std::int64_t> dims,
                             std::shared_ptr<const MappedFile> file,
                             std::span<const std::byte> window, std::string name);

}  // namespace llmc::ir
