#include "tools/llmc-opt/stand_in.h"

#include <sys/mman.h>

namespace llmc::opt {

ir::ConstantPtr zeros_for_mapped(ir::ElementType element, const std::vector<std::int64_t>& dims,
                                 const std::string& name) {
  const auto bytes = ir::checked_byte_count(element, dims);
  if (!bytes) return nullptr;
  if (*bytes == 0) return ir::make_mapped(element, dims, nullptr, {}, name);
  // The mapping is private and never written, so every page is the kernel's shared page of zeros.
  void* const address = ::mmap(nullptr, *bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  const std::shared_ptr<const void> owner(
      address, [size = *bytes](void* memory) { ::munmap(memory, size); });
  return ir::make_mapped(element, dims, owner, {static_cast<const std::byte*>(address), *bytes},
                         name);
}

}  // namespace llmc::opt
