#include "runtime/core/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <vector>

#include "tests/runtime/core/plain_model.h"

namespace llmc::fake {
namespace {

TEST(Checksum, IsXxh64AtAnyLengthAndAlignment) {
  std::vector<unsigned char> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(mix(i, 1));
  for (std::size_t offset = 0; offset < 8; ++offset)
    for (std::size_t length = 0; length + offset <= bytes.size(); ++length)
      ASSERT_EQ(core::checksum(bytes.data() + offset, length, offset * 77),
                XXH64(bytes.data() + offset, length, offset * 77));
}

}  // namespace
}  // namespace llmc::fake
