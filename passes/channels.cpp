#include "passes/channels.h"

#include <numeric>
#include <utility>

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

ir::ValueId pad_channels_last(Rewriter& rw, const ir::Node& pad, ir::ValueId x, NodeIndex anchor) {
  const auto pads = integer_constant(rw, pad.inputs[1]);
  if (!pads) return ir::kNoValue;
  const std::size_t rank = rw.type(x).rank();
  std::vector<std::int64_t> permuted;
  for (const std::size_t half : {std::size_t{0}, rank})
    for (const std::int64_t axis : channels_last(rank))
      permuted.push_back((*pads)[half + static_cast<std::size_t>(axis)]);
  std::vector<ir::ValueId> inputs = pad.inputs;
  inputs[0] = x;
  inputs[1] = emit_integers(rw, std::move(permuted), anchor);
  return rw.emit(pad.op, std::move(inputs), anchor);
}

}  // namespace llmc::passes
