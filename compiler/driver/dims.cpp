#include "compiler/driver/dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/driver/compile_options.h"
#include "compiler/driver/toolchain.h"
#include "compiler/ir/infer.h"
#include "compiler/support/nearest.h"
#include "passes/rewrite.h"
#include "passes/size_limit.h"

namespace llmc::driver {
namespace {

using DimSizes = std::map<std::string, std::int64_t>;

/// A sum of symbols and its requested size.
struct GivenSum {
  std::string name;
  ir::Dim sum;
  std::int64_t size = 0;
};

/// Returns the symbols in the shapes of the inputs that have no size in `given`, without
/// duplicates, in order of appearance.
std::vector<std::string> open_symbols(const ir::Graph& graph, const plan::DimRanges& given) {
  std::vector<std::string> symbols;
  std::set<std::string> seen;
  for (const ir::ValueId input : graph.inputs())
    for (const ir::Dim& dim : graph.value(input).type.dims)
      for (const auto& [symbol, factor] : dim.terms())
        if (!given.contains(symbol) && seen.insert(symbol).second) symbols.push_back(symbol);
  return symbols;
}

Diagnostic unknown_dim(const std::string& name, const std::vector<std::string>& symbols) {
  const std::string message = fmt::format("no input has a dim called '{}'", printable(name, 40));
  if (symbols.empty()) return usage_error(message, "all sizes of this graph are fixed");
  constexpr std::size_t kMaxListed = 32;
  std::string known;
  for (std::size_t i = 0; i < std::min(symbols.size(), kMaxListed); ++i)
    known += (i > 0 ? ", " : "") + printable(symbols[i], 40);
  if (symbols.size() > kMaxListed) known += ", …";
  const std::vector<std::string_view> views(symbols.begin(), symbols.end());
  const std::string_view meant = nearest(name, views);
  return usage_error(
      message,
      (meant.empty() ? "" : fmt::format("did you mean {}? ", printable(std::string(meant), 40))) +
          "its symbols are: " + known);
}

/// Computes the size of the only symbol in `given.sum` that has no size yet. Returns false if
/// several symbols have no size. `dims`: the requested sizes.
Result<bool> solve(const GivenSum& given, const plan::DimRanges& dims, DimSizes& sizes) {
  std::int64_t rest = given.size;
  const std::pair<const std::string, std::int64_t>* open = nullptr;
  bool overflow = __builtin_sub_overflow(rest, given.sum.constant_part(), &rest);
  for (const auto& term : given.sum.terms()) {
    const auto known = sizes.find(term.first);
    if (known == sizes.end()) {
      if (open != nullptr) return false;
      open = &term;
      continue;
    }
    std::int64_t product = 0;
    overflow |= __builtin_mul_overflow(term.second, known->second, &product) ||
                __builtin_sub_overflow(rest, product, &rest);
  }
  const bool fits = open == nullptr ? rest == 0
                                    : rest != INT64_MIN && rest % open->second == 0 &&
                                          !dims.contains(open->first);
  if (overflow || !fits) {
    return usage_error(fmt::format("--dim '{}={}' contradicts the other sizes",
                                   printable(given.name, 80), given.size),
                       "leave it out: it follows from the sizes of " + given.sum.to_string());
  }
  if (open != nullptr) sizes[open->first] = rest / open->second;
  return true;
}

/// Returns the size of each symbol that has one: set by `dims`, or computed from the size of a sum.
Result<DimSizes> sizes_of_symbols(const ir::Graph& graph, const plan::DimRanges& dims) {
  const std::vector<std::string> symbols = open_symbols(graph, {});
  const std::set<std::string> known(symbols.begin(), symbols.end());
  DimSizes sizes;
  std::vector<GivenSum> sums;
  for (const auto& [name, range] : dims) {
    if (range.max > plan::kMaxElements)
      return usage_error(
          fmt::format("the size {} of --dim {} is too large", range.max, printable(name, 40)),
          fmt::format("a size is at most {}", plan::kMaxElements));
    if (!range.is_number() && (range.min < 1 || range.max < range.min))
      return usage_error(fmt::format("--dim {}={}..{} is no range of sizes", printable(name, 40),
                                     range.min, range.max),
                         "give the smallest size, at least 1, and the largest: 1..512");
    if (known.contains(name)) {
      if (range.is_number()) sizes[name] = range.min;
      continue;
    }
    const auto sum = ir::parse_dim(name);
    const bool derived =
        sum && !sum->is_constant() && std::ranges::all_of(sum->terms(), [&](const auto& term) {
          return known.contains(term.first);
        });
    if (!derived) return unknown_dim(name, symbols);
    if (!range.is_number())
      return usage_error(fmt::format("--dim '{}' gives a range to a sum", printable(name, 80)),
                         "give ranges to the symbols that it is made of");
    sums.push_back({name, *sum, range.min});
  }
  for (bool progress = true; progress && !sums.empty();) {
    progress = false;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      LLMC_TRY(const bool solved, solve(sums[i], dims, sizes));
      if (!solved) continue;
      sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(i--));
      progress = true;
    }
  }
  // Sums that remain have symbols without a size. missing_dims() reports these symbols, except for
  // symbols with a range, which are errors here.
  for (const GivenSum& sum : sums) {
    for (const auto& [symbol, factor] : sum.sum.terms())
      if (dims.contains(symbol) && !sizes.contains(symbol))
        return usage_error(
            fmt::format("--dim '{}={}' gives the size of a sum, but '{}' has a range",
                        printable(sum.name, 80), sum.size, printable(symbol, 40)),
            "give a number for each symbol of the sum, or leave the sum out");
  }
  return sizes;
}

/// Returns `--dim name=N` in a form that a shell accepts. The name is not truncated, because --dim
/// compares all of it, and it is quoted, because it comes from the model.
std::string dim_flag(const std::string& symbol, std::string_view size) {
  return fmt::format("--dim {}", shell_quoted(fmt::format("{}={}", symbol, size)));
}

bool is_batch(const std::string& symbol) {
  return symbol.find("batch") != std::string::npos;
}

/// Returns the default maximum size of the open dim `axis` of an input. The dim counts tokens if
/// the input has integers. If the graph has convolutions, it may count the samples
/// [batch, samples] or frames [batch, bands, frames] of a sound. Returns nullopt for other dims.
std::optional<std::int64_t> usual_bound(const ir::TensorType& type, std::size_t axis,
                                        bool convolves) {
  if (!ir::is_float(type.element)) return kUsualBound;
  if (!convolves || axis + 1 != type.rank() || type.dims[axis].terms().size() != 1)
    return std::nullopt;
  if (type.rank() == 2) return CompileOptions::kDefaultSamples;
  if (type.rank() == 3 && type.dims[1].is_constant()) return CompileOptions::kDefaultFrames;
  return std::nullopt;
}

/// Returns the smallest size of `symbol`, at most `most`, for which every output has elements.
std::int64_t least_size(const ir::Graph& graph, const std::string& symbol, std::int64_t most,
                        const plan::DimRanges& others) {
  DimSizes sizes;
  for (const auto& [name, range] : others) sizes[name] = range.min;
  const auto has_elements = [&](std::int64_t size) {
    sizes[symbol] = size;
    return std::ranges::all_of(graph.outputs(), [&](ir::ValueId output) {
      return std::ranges::all_of(graph.value(output).type.dims, [&](const ir::Dim& dim) {
        return dim.evaluate(sizes).value_or(1) >= 1;
      });
    });
  };
  std::int64_t low = 1, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (has_elements(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Returns the smallest value of `dim` for all sizes in `ranges`; nullopt if a symbol has no range
/// or on overflow.
std::optional<std::int64_t> min_value(const ir::Dim& dim, const plan::DimRanges& ranges) {
  DimSizes sizes;
  for (const auto& [symbol, factor] : dim.terms()) {
    const auto range = ranges.find(symbol);
    if (range == ranges.end()) return std::nullopt;
    sizes[symbol] = factor > 0 ? range->second.min : range->second.max;
  }
  return dim.evaluate(sizes);
}

/// Replaces each minimum and maximum of two sizes that chooses the same one for all sizes in
/// `ranges`: min(tokens, 512) is `tokens` if there are at most 512. Shapes that are computed from
/// the result then follow from the sizes of the inputs.
Result<ir::Graph> choose_sizes(ir::Graph graph, const plan::DimRanges& ranges) {
  for (;;) {
    passes::Rewriter rw(graph);
    const auto at_most = [&](ir::ValueId a, ir::ValueId b) {
      const auto* x = rw.shape_values().find(a);
      const auto* y = rw.shape_values().find(b);
      if (!x || !y || x->size() != 1 || y->size() != 1) return false;
      const auto difference = sub(y->front(), x->front());
      return difference && min_value(*difference, ranges).value_or(-1) >= 0;
    };
    for (passes::Rewriter::NodeIndex i = 0; i < rw.size(); ++i) {
      const auto* op = rw.alive(i) ? ir::op_as<ir::Binary>(&rw.node(i)) : nullptr;
      if (!op || (op->kind != ir::BinaryKind::kMin && op->kind != ir::BinaryKind::kMax)) continue;
      const ir::ValueId a = rw.node(i).inputs[0], b = rw.node(i).inputs[1];
      const ir::ValueId result = rw.node(i).outputs[0];
      const bool minimum = op->kind == ir::BinaryKind::kMin;
      const ir::ValueId chosen = at_most(a, b)   ? (minimum ? a : b)
                                 : at_most(b, a) ? (minimum ? b : a)
                                                 : ir::kNoValue;
      if (chosen.exists() && rw.type(chosen) == rw.type(result)) rw.replace(result, chosen);
    }
    if (!rw.changed()) return graph;
    LLMC_TRY(graph, std::move(rw).finish());
  }
}

/// Returns the error of an operator that does not accept the given sizes. Without a hint, it gets
/// one that names a size of 0, or else all sizes.
Diagnostic impossible_sizes(Diagnostic error, const plan::DimRanges& dims) {
  error.kind = ErrorKind::kUsage;
  if (!error.hint.empty()) return error;
  const auto zero =
      std::ranges::find(dims, plan::DimRange(0), &plan::DimRanges::value_type::second);
  error.hint = zero != dims.end() ? fmt::format("{} is given: use a size of at least 1",
                                                dim_flag(zero->first, "0"))
                                  : "the operator does not accept these sizes: " + dim_flags(dims);
  return error;
}

}  // namespace

Result<ir::Graph> bind_dims(ir::Graph graph, const plan::DimRanges& dims) {
  if (dims.empty()) return graph;
  LLMC_TRY(const DimSizes sizes, sizes_of_symbols(graph, dims));
  for (const ir::ValueId input : graph.inputs()) {
    for (ir::Dim& dim : graph.value(input).type.dims) {
      const auto size = dim.evaluate(sizes);
      if (!size) continue;
      if (*size < 0) {
        return usage_error(fmt::format("--dim makes the size {} of input '{}' {}", dim.to_string(),
                                       printable(graph.value(input).name, 40), *size),
                           "give larger numbers");
      }
      dim = *size;
    }
  }
  auto inferred = ir::infer_graph(std::move(graph));
  if (!inferred.ok()) return impossible_sizes(inferred.error().first(), dims);
  ir::Graph bound = *std::move(inferred);
  if (std::ranges::any_of(dims, [](const auto& dim) { return !dim.second.is_number(); })) {
    LLMC_TRY(bound, choose_sizes(std::move(bound), dims));
  }
  const auto has_no_elements = [&](ir::ValueId output) {
    return std::ranges::any_of(bound.value(output).type.dims,
                               [](const ir::Dim& dim) { return dim.constant() == 0; });
  };
  for (const auto& [name, range] : dims) {
    if (range == plan::DimRange(0) && std::ranges::all_of(bound.outputs(), has_no_elements))
      return usage_error(fmt::format("with --dim {}=0 no output has an element, so there is "
                                     "nothing to compute",
                                     printable(name, 40)),
                         "give a size of at least 1");
  }
  return bound;
}

plan::DimRanges usual_dims(const ir::Graph& graph) {
  const bool convolves = std::ranges::any_of(
      graph.nodes(), [](const ir::Node& node) { return ir::op_as<ir::Conv>(&node) != nullptr; });
  plan::DimRanges dims;
  std::string other;
  std::int64_t most = 0;
  for (const ir::ValueId input : graph.inputs()) {
    const ir::TensorType& type = graph.value(input).type;
    for (std::size_t axis = 0; axis < type.rank(); ++axis)
      for (const auto& [symbol, factor] : type.dims[axis].terms()) {
        // The first of four or more dims is the batch of images [batch, channels, height, width] or
        // of videos.
        if (is_batch(symbol) || (axis == 0 && type.rank() >= 4)) {
          dims.emplace(symbol, plan::DimRange(1));
          continue;
        }
        const auto bound = usual_bound(type, axis, convolves);
        if (!bound || (!other.empty() && symbol != other)) return {};
        other = symbol;
        most = std::max(most, *bound);
      }
  }
  const auto bound = bind_dims(graph, dims);
  if (!bound.ok()) return {};
  if (other.empty()) return dims;
  // In the bound graph, because views of the positions by a batch of unknown size are not
  // recognised.
  const auto rows = passes::size_limit(*bound, ir::Dim::symbol(other));
  most = std::max<std::int64_t>(std::min(most, rows.value_or(most)), 1);
  dims.emplace(other, plan::DimRange(least_size(graph, other, most, dims), most));
  return dims;
}

std::string dim_flags(const plan::DimRanges& dims) {
  std::string flags;
  for (const auto& [symbol, range] : dims) {
    const std::string size = range.is_number() ? fmt::format("{}", range.min)
                                               : fmt::format("{}..{}", range.min, range.max);
    flags += (flags.empty() ? "" : " ") + dim_flag(symbol, size);
  }
  return flags;
}

std::string missing_dims(const ir::Graph& graph, const plan::DimRanges& given) {
  // Limits of the message. It contains only complete flags: a truncated one could end inside its
  // quotes.
  constexpr std::size_t kMaxFlags = 32, kMaxBytes = 3000;
  const std::vector<std::string> symbols = open_symbols(graph, given);
  std::string flags;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::string flag =
        (i > 0 ? " " : "") + dim_flag(symbols[i], is_batch(symbols[i]) ? "1" : "N");
    if (i == kMaxFlags || flags.size() + flag.size() > kMaxBytes) return flags + " …";
    flags += flag;
  }
  return flags;
}

}  // namespace llmc::driver
