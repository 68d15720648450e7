#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Removes nodes without effect and merges chains of views.
///
///   identity, cast to the same type, reshape | squeeze | unsqueeze | expand | tile | slice to the
///     same dims (slice: steps of 1), transpose by the identity, concat or split of one,
///     scatter_nd of nothing                       -> x
///   two of reshape, squeeze, unsqueeze in a row   -> one reshape, or x
///   transpose(transpose(x))                       -> one transpose, or x
///   split(concat(a, b, …)) into the operands      -> a, b, …
///   concat of all parts of a split, in order      -> operand of the split
///   concat with parts of size 0                   -> concat of the others, or x
///   slice(concat(…)) of exactly one part          -> that part
///   slice(pad(x)) of exactly x, padded at the end -> x
///   gather(concat(…), constant scalar) of a part of size 1 on that axis -> squeeze(part)
///   where(constant of one element, x, y)          -> x or y
///   x * 1, x / 1, x - 0, pow(x, 1), neg(neg(x))   -> x
///   slice of the last row, x[-1:] on a symbolic dim but past -> gather(x, [-1])
///   slice of the first token's row, x[0:1]        -> gather(x, [0])
///   gather_elements(x, column repeated along the axes after it), where the axes before it are 1
///                                                 -> gather of rows
///   gather_nd(x, indices of one component)        -> gather along the first axis
///   gather_elements(equal integers, indices)      -> constant_of_shape(shape(indices))
///   scatter_nd, scatter_elements that overwrites a block, x[:, a:b] = y
///                                                 -> concat of the part before, y, the part after
///   the same with a step, x[:, a:b:k] = y         -> gather(concat(x, y), indices)
///
/// x + 0 is kept, because it changes -0 to 0.
Result<ir::Graph> simplify(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
