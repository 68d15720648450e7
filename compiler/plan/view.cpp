#include "compiler/plan/view.h"

#include "compiler/support/check.h"

namespace llmc::plan {

Sizes row_major(const Sizes& dims) {
  Sizes strides(dims.size());
  Size stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

View View::dense(std::uint32_t buffer, Sizes dims) {
  View view;
  view.buffer = buffer;
  view.strides = row_major(dims);
  view.dims = std::move(dims);
  return view;
}

bool View::is_dense() const {
  if (product(dims) == 0) return true;
  Size expected = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

View transposed(const View& view, const std::vector<std::int64_t>& perm) {
  View result = view;
  for (std::size_t k = 0; k < view.dims.size(); ++k) {
    const std::size_t from =
        perm.empty() ? view.dims.size() - 1 - k : static_cast<std::size_t>(perm[k]);
    result.dims[k] = view.dims[from];
    result.strides[k] = view.strides[from];
  }
  return result;
}

View broadcast(const View& view, const Sizes& dims) {
  View result{view.buffer, dims, Sizes(dims.size(), 0), view.offset};
  if (view.dims.size() > dims.size()) {
    LLMC_CHECK(product(view.dims) == 1);
    return result;
  }
  const std::size_t lead = dims.size() - view.dims.size();
  for (std::size_t a = 0; a < view.dims.size(); ++a)
    if (view.dims[a] != 1 || dims[lead + a] == 1) result.strides[lead + a] = view.strides[a];
  return result;
}

std::optional<View> reshaped(const View& view, const Sizes& dims) {
  if (product(dims) == 0) return View{view.buffer, dims, row_major(dims), view.offset};
  // Adjacent old dims with one common stride count as one dim, which new dims subdivide.
  View runs = view;
  collapse({&runs});
  View result{view.buffer, dims, Sizes(dims.size(), 0), view.offset};
  std::size_t k = 0;
  for (std::size_t run = 0; run < runs.dims.size(); ++run) {
    Size rest = runs.dims[run];
    for (; rest != 1; ++k) {
      if (k == dims.size()) return std::nullopt;
      const auto inner = quotient(rest, dims[k]);
      if (!inner) return std::nullopt;
      if (dims[k] != 1) result.strides[k] = *inner * runs.strides[run];
      rest = *inner;
    }
  }
  for (; k < dims.size(); ++k)
    if (dims[k] != 1) return std::nullopt;
  return result;
}

View sliced(const View& view, std::size_t axis, const Size& start, std::int64_t step,
            const Size& count) {
  View result = view;
  result.dims[axis] = count;
  if (count.bound() > 0) result.offset += start * view.strides[axis];
  // A single element has no stride; leaving it out avoids overflow by a huge step.
  if (count.bound() > 1) result.strides[axis] *= step;
  return result;
}

View unfolded(const View& view, const ir::Unfold& op, const Sizes& positions) {
  View result{view.buffer, {view.dims.front()}, {view.strides.front()}, view.offset};
  const auto add = [&](const Size& count, const Size& stride) {
    result.dims.push_back(count);
    result.strides.push_back(stride);
  };
  const std::size_t spatial = op.kernel.size();
  for (std::size_t i = 0; i < spatial; ++i) add(positions[i], view.strides[i + 1] * op.strides[i]);
  for (std::size_t i = 0; i < spatial; ++i)
    add(op.kernel[i], view.strides[i + 1] * op.dilations[i]);
  add(view.dims.back(), view.strides.back());
  return result;
}

Sizes collapse(std::vector<View*> views) {
  LLMC_CHECK(!views.empty());
  const Sizes dims = views[0]->dims;
  Sizes kept;
  std::vector<Sizes> strides(views.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool joins = !kept.empty();
    for (std::size_t v = 0; v < views.size() && joins; ++v)
      joins = strides[v].back() == dims[d] * views[v]->strides[d];
    if (!joins) kept.push_back(1);
    kept.back() *= dims[d];
    for (std::size_t v = 0; v < views.size(); ++v) {
      if (joins) strides[v].pop_back();
      strides[v].push_back(views[v]->strides[d]);
    }
  }
  for (std::size_t v = 0; v < views.size(); ++v) {
    views[v]->dims = kept;
    views[v]->strides = strides[v];
  }
  return kept;
}

}  // namespace llmc::plan
