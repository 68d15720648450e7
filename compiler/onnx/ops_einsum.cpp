// Einsum as a chain of matrix products.

#include <algorithm>
#include <map>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ReduceKind;
using ir::ValueId;

/// One label per dim: a letter, or a number from kEllipsis on for a dim of an ellipsis. These
/// numbers count from the last dim, so that operands are aligned at the right.
using Labels = std::vector<int>;
constexpr int kEllipsis = 1000;

struct Term {
  ValueId value;
  Labels labels;
};

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// Parses a term such as "b...ij" for a tensor of rank `rank`; nullopt if it does not match. If
/// `rank` < 0, the ellipsis has `ellipsis` dims.
std::optional<Labels> parse_term(const std::string& text, std::int64_t rank, std::size_t ellipsis) {
  Labels before, after;
  bool dots = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (text.compare(i, 3, "...") == 0 && !dots) {
      dots = true;
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      (dots ? after : before).push_back(c);
    } else {
      return std::nullopt;
    }
  }
  const std::size_t letters = before.size() + after.size();
  std::size_t hidden = ellipsis;
  if (rank >= 0) {
    if (static_cast<std::size_t>(rank) < letters) return std::nullopt;
    hidden = static_cast<std::size_t>(rank) - letters;
    if (!dots && hidden > 0) return std::nullopt;
  }
  if (dots)
    for (std::size_t i = hidden; i-- > 0;) before.push_back(kEllipsis + static_cast<int>(i));
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::int64_t index_of(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

/// Replaces dims with a repeated label by their diagonal: sets other elements to 0 and sums over
/// one of the dims.
void take_diagonals(NodeContext& n, Term& term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i)
    for (std::size_t j = term.labels.size(); j-- > i + 1;) {
      if (term.labels[i] != term.labels[j] || n.failed()) continue;
      const ValueId on = binary(n, BinaryKind::kEqual,
                                positions_along(n, term.value, static_cast<std::int64_t>(i)),
                                positions_along(n, term.value, static_cast<std::int64_t>(j)));
      const ValueId kept = n.make(ir::Where{}, {on, term.value, n.make_scalar(0, term.value)});
      term.value = reduce(n, ReduceKind::kSum, kept, {static_cast<std::int64_t>(j)}, false);
      term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(j));
    }
}

/// Sums over the dims whose label is not in `wanted`.
void sum_out(NodeContext& n, Term& term, const Labels& wanted) {
  std::vector<std::int64_t> axes;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (contains(wanted, term.labels[i])) {
      kept.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (axes.empty() || n.failed()) return;
  term.value = reduce(n, ReduceKind::kSum, term.value, std::move(axes), false);
  term.labels = std::move(kept);
}

ValueId transposed_to(NodeContext& n, const Term& term, const Labels& order) {
  std::vector<std::int64_t> perm;
  for (const int label : order) perm.push_back(index_of(term.labels, label));
  if (perm == axis_range(0, static_cast<std::int64_t>(perm.size()))) return term.value;
  return n.make(ir::Transpose{std::move(perm)}, {term.value});
}

/// Returns the sizes of dims [begin, end) of x.
ValueId sizes_of(NodeContext& n, ValueId x, std::int64_t begin, std::int64_t end) {
  return n.make(ir::Shape{begin, end}, {x});
}

/// Returns x [batch…, first…, second…] as [batch…, product of first, product of second].
ValueId as_matrix(NodeContext& n, ValueId x, std::size_t batch, std::size_t first,
                  std::size_t second) {
  if (n.failed() || (first == 1 && second == 1)) return x;
  const auto b = static_cast<std::int64_t>(batch), f = static_cast<std::int64_t>(first),
             s = static_cast<std::int64_t>(second);
  const auto size = [&](std::int64_t begin, std::int64_t end) {
    if (begin == end) return n.make_integers({1});
    if (end == begin + 1) return dim_of(n, x, begin);
    return reduce(n, ReduceKind::kProd, sizes_of(n, x, begin, end), {0});
  };
  std::vector<ValueId> parts;
  for (std::int64_t i = 0; i < b; ++i) parts.push_back(dim_of(n, x, i));
  parts.push_back(size(b, b + f));
  parts.push_back(size(b + f, b + f + s));
  return n.make(ir::Reshape{true}, {x, n.make(ir::Concat{0}, parts)});
}

/// Returns the product of two terms, summed over the labels that are not in `wanted`.
Term contract(NodeContext& n, const Term& a, const Term& b, const Labels& wanted) {
  Labels batch, rows, columns, inner;
  for (const int label : a.labels) {
    if (!contains(b.labels, label)) {
      rows.push_back(label);
    } else {
      (contains(wanted, label) ? batch : inner).push_back(label);
    }
  }
  for (const int label : b.labels)
    if (!contains(a.labels, label)) columns.push_back(label);
  const auto joined = [](std::initializer_list<const Labels*> lists) {
    Labels all;
    for (const Labels* list : lists) all.insert(all.end(), list->begin(), list->end());
    return all;
  };
  const ValueId left = transposed_to(n, a, joined({&batch, &rows, &inner}));
  const ValueId right = transposed_to(n, b, joined({&batch, &inner, &columns}));
  const ValueId product =
      n.make(ir::MatMul{}, {as_matrix(n, left, batch.size(), rows.size(), inner.size()),
                            as_matrix(n, right, batch.size(), inner.size(), columns.size())});
  Term out{product, joined({&batch, &rows, &columns})};
  if (n.failed() || (rows.size() == 1 && columns.size() == 1)) return out;
  std::vector<ValueId> parts;
  const auto count = static_cast<std::int64_t>(batch.size());
  for (std::int64_t i = 0; i < count; ++i) parts.push_back(dim_of(n, product, i));
  for (std::size_t i = 0; i < rows.size(); ++i)
    parts.push_back(dim_of(n, left, count + static_cast<std::int64_t>(i)));
  for (std::size_t i = 0; i < columns.size(); ++i)
    parts.push_back(dim_of(n, right, count + static_cast<std::int64_t>(inner.size() + i)));
  const ValueId shape = parts.empty() ? n.make_integers({}) : n.make(ir::Concat{0}, parts);
  out.value = n.make(ir::Reshape{true}, {product, shape});
  return out;
}

void convert_einsum(NodeContext& n) {
  std::string equation = n.text("equation", "");
  const auto inputs = n.all_inputs();
  if (n.failed()) return;
  std::erase(equation, ' ');
  const auto arrow = equation.find("->");
  const auto terms_text = split_at_commas(equation.substr(0, arrow));
  if (terms_text.size() != inputs.size())
    return n.bad("the equation has " + std::to_string(terms_text.size()) + " terms for " +
                 std::to_string(inputs.size()) + " operands");
  std::vector<Term> terms;
  std::map<int, int> uses;
  std::size_t ellipsis = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto labels = parse_term(terms_text[i], n.rank(inputs[i]), 0);
    if (!labels)
      return n.bad("a term of the equation does not fit " + ir::to_string(n.type(inputs[i])));
    std::size_t hidden = 0;
    for (const int label : *labels) {
      ++uses[label];
      hidden += label >= kEllipsis;
    }
    ellipsis = std::max(ellipsis, hidden);
    terms.push_back({inputs[i], *labels});
  }
  Labels output;
  if (arrow != std::string::npos) {
    const auto labels = parse_term(equation.substr(arrow + 2), -1, ellipsis);
    if (!labels) return n.bad("the result of the equation is malformed");
    output = *labels;
  } else {  // implicit output: dims of the ellipsis, then letters that occur once, in alphabetical
            // order
    for (std::size_t i = ellipsis; i-- > 0;) output.push_back(kEllipsis + static_cast<int>(i));
    for (const auto& [label, count] : uses)
      if (label < kEllipsis && count == 1) output.push_back(label);
  }
  for (std::size_t i = 0; i < output.size(); ++i)
    if (!uses.contains(output[i]) || std::count(output.begin(), output.end(), output[i]) != 1)
      return n.bad("the result of the equation has an unknown or repeated dim");
  for (auto& term : terms) take_diagonals(n, term);
  Term result = terms.front();
  for (std::size_t i = 1; i <= terms.size(); ++i) {
    // The labels that the result or a later operand needs.
    Labels wanted = output;
    for (std::size_t j = i; j < terms.size(); ++j)
      wanted.insert(wanted.end(), terms[j].labels.begin(), terms[j].labels.end());
    sum_out(n, result, wanted);
    if (i == terms.size()) break;
    Labels for_next = output;
    for (std::size_t j = i + 1; j < terms.size(); ++j)
      for_next.insert(for_next.end(), terms[j].labels.begin(), terms[j].labels.end());
    Labels needed = for_next;
    needed.insert(needed.end(), result.labels.begin(), result.labels.end());
    sum_out(n, terms[i], needed);
    result = contract(n, result, terms[i], for_next);
  }
  if (n.failed()) return;
  n.bind(0, transposed_to(n, result, output));
}

}  // namespace

std::vector<OperatorRule> einsum_rules() {
  return {onnx_rule("Einsum", 12, {1, kAnyCount}, convert_einsum, {"equation"})};
}

}  // namespace llmc::importer
