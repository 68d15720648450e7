#include "passes/channels.h"

#include <numeric>

namespace llmc::passes {

std::vector<std::int64_t> channels_last(std::size_t rank) {
  std::vector<std::int64_t> perm(rank, 0);
  std::iota(perm.begin() + 1, perm.end(), 2);
  perm.back() = 1;
  return perm;
}

std::vector<std::int64_t> channels_first(std::size_t rank) {
  std::vector<std::int64_t> perm(rank, 0);
  perm[1] = static_cast<std::int64_t>(rank) - 1;
  std::iota(perm.begin() + 2, perm.end(), 1);
  return perm;
}

}  // namespace llmc::passes
