#include "compiler/plan/view.h"

#include "compiler/ir/index_map.h"
#include "compiler/support/check.h"

namespace llmc::plan {
namespace {

std::vector<ir::Dim> as_dims(const Sizes& sizes) {
  return {sizes.begin(), sizes.end()};
}

/// The elements of `view` that `map` reads, as a view of `dims`; nullopt when strides cannot
/// express it.
std::optional<View> read_through(const View& view, const ir::IndexMap& map, const Sizes& dims) {
  const ir::AffineIndex place{view.offset, as_dims(view.strides)};
  const auto found = ir::compose(place, map, dims.size());
  if (!found) return std::nullopt;
  View result{view.buffer, dims, {}, *found->start.constant()};
  for (const ir::Dim& step : found->steps) result.strides.push_back(*step.constant());
  return result;
}

}  // namespace

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
  const ir::IndexMap map = ir::transpose_map(perm, view.dims.size());
  Sizes dims(view.dims.size());
  for (std::size_t a = 0; a < dims.size(); ++a) dims[map.axes[a].terms[0].axis] = view.dims[a];
  return *read_through(view, map, dims);
}

View broadcast(const View& view, const Sizes& dims) {
  LLMC_CHECK(view.dims.size() <= dims.size());
  return *read_through(view, ir::expand_map(as_dims(view.dims), as_dims(dims)), dims);
}

std::optional<View> reshaped(const View& view, const Sizes& dims) {
  if (product(dims) == 0) return View{view.buffer, dims, row_major(dims), view.offset};
  // Runs of old dims that have one stride count as one dim.
  View runs = view;
  collapse({&runs});
  const auto map = ir::reshape_map(as_dims(runs.dims), as_dims(dims));
  return map ? read_through(runs, *map, dims) : std::nullopt;
}

View sliced(const View& view, std::size_t axis, std::int64_t start, std::int64_t step,
            std::int64_t count) {
  ir::IndexMap map = ir::identity_map(view.dims.size());
  Sizes dims = view.dims;
  dims[axis] = count;
  if (count > 0) map.axes[axis].start = start;
  // A single element has no step; without it a huge one cannot overflow.
  if (count > 1) map.axes[axis].terms[0].step = step;
  return *read_through(view, map, dims);
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
