#include "compiler/plan/view.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace llmc::plan {

std::int64_t product(const Sizes& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

Sizes row_major(const Sizes& dims) {
  Sizes strides(dims.size());
  std::int64_t stride = 1;
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
  std::int64_t expected = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

View transposed(const View& view, const std::vector<std::int64_t>& perm) {
  View result = view;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    const std::size_t from =
        perm.empty() ? view.dims.size() - 1 - i : static_cast<std::size_t>(perm[i]);
    result.dims[i] = view.dims[from];
    result.strides[i] = view.strides[from];
  }
  return result;
}

View broadcast(const View& view, const Sizes& dims) {
  LLMC_CHECK(view.dims.size() <= dims.size());
  View result{view.buffer, dims, Sizes(dims.size(), 0), view.offset};
  const std::size_t lead = dims.size() - view.dims.size();
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == dims[lead + i]) {
      result.strides[lead + i] = view.strides[i];
    } else {
      LLMC_CHECK(view.dims[i] == 1);
    }
  }
  return result;
}

std::optional<View> reshaped(const View& view, const Sizes& dims) {
  View result{view.buffer, dims, row_major(dims), view.offset};
  if (product(dims) == 0) return result;
  // Runs of old dims that have one stride, against the new dims from the left.
  Sizes old_dims, old_strides;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == 1) continue;
    old_dims.push_back(view.dims[i]);
    old_strides.push_back(view.strides[i]);
  }
  std::size_t from = 0, to = 0;
  while (to < dims.size()) {
    if (dims[to] == 1) {
      result.strides[to++] = 0;
      continue;
    }
    // The fewest dims on both sides with the same number of elements.
    LLMC_CHECK(from < old_dims.size());
    std::size_t from_end = from + 1, to_end = to + 1;
    std::int64_t old_count = old_dims[from], new_count = dims[to];
    while (old_count != new_count) {
      if (old_count < new_count) {
        LLMC_CHECK(from_end < old_dims.size());
        old_count *= old_dims[from_end++];
      } else {
        LLMC_CHECK(to_end < dims.size());
        new_count *= dims[to_end++];
      }
    }
    for (std::size_t i = from; i + 1 < from_end; ++i)
      if (old_strides[i] != old_dims[i + 1] * old_strides[i + 1]) return std::nullopt;
    std::int64_t stride = old_strides[from_end - 1];
    for (std::size_t i = to_end; i-- > to;) {
      result.strides[i] = stride;
      stride *= dims[i];
    }
    from = from_end;
    to = to_end;
  }
  return result;
}

View sliced(const View& view, std::size_t axis, std::int64_t start, std::int64_t step,
            std::int64_t count) {
  View result = view;
  result.dims[axis] = count;
  if (count > 0) result.offset += start * view.strides[axis];
  // A single element has no step; without it a huge one cannot overflow.
  result.strides[axis] = count > 1 ? view.strides[axis] * step : view.strides[axis];
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
