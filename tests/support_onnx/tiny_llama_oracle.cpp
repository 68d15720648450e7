// TinyLlama without a graph: the forward pass as the papers write it, in double.

#include <algorithm>
#include <cmath>

#include "tests/support_onnx/tiny_llama.h"

namespace llmc::testing {
namespace {

using Row = std::vector<double>;

Row rms_norm(const Row& x, const std::vector<float>& weight, double epsilon) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + epsilon);
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * static_cast<double>(weight[i]);
  return y;
}

/// x W with W [inputs, outputs].
Row product(const Row& x, const std::vector<float>& weight) {
  Row y(weight.size() / x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j)
      y[j] += x[i] * static_cast<double>(weight[i * y.size() + j]);
  return y;
}

void add(Row& x, const Row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

/// Rotates pairs (i, i + dim/2) of each head by position * theta^(-2i/dim).
void rope(Row& x, std::size_t dim, double position, double theta) {
  for (std::size_t head = 0; head < x.size(); head += dim)
    for (std::size_t i = 0; i < dim / 2; ++i) {
      const double angle =
          position * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const double a = x[head + i], b = x[head + i + dim / 2];
      x[head + i] = a * std::cos(angle) - b * std::sin(angle);
      x[head + i + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
}

/// One token's attention over the cache, which already holds the token itself.
Row attend(const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values,
           std::size_t dim) {
  Row out(q.size());
  const std::size_t group = q.size() / keys[0].size();
  for (std::size_t head = 0; head < q.size() / dim; ++head) {
    const std::size_t from = head / group * dim;
    Row scores;
    for (const Row& key : keys) {
      double dot = 0;
      for (std::size_t i = 0; i < dim; ++i) dot += q[head * dim + i] * key[from + i];
      scores.push_back(dot / std::sqrt(static_cast<double>(dim)));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - top);
    for (std::size_t t = 0; t < values.size(); ++t)
      for (std::size_t i = 0; i < dim; ++i)
        out[head * dim + i] += scores[t] / sum * values[t][from + i];
  }
  return out;
}

Row bias_row(const std::vector<float>& bias) {
  return {bias.begin(), bias.end()};
}

}  // namespace

std::vector<float> TinyLlama::logits(const std::vector<std::int64_t>& ids) const {
  const auto& c = config;
  const auto hidden = static_cast<std::size_t>(c.hidden),
             dim = static_cast<std::size_t>(c.head_dim);
  std::vector<Row> rows;
  for (const auto id : ids) {
    const auto begin = embedding.begin() + id * c.hidden;
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(hidden));
  }
  for (const Layer& layer : layers) {
    std::vector<Row> keys, values;
    for (std::size_t t = 0; t < rows.size(); ++t) {
      const Row normed = rms_norm(rows[t], layer.norm1, c.norm_epsilon);
      Row q = product(normed, layer.q), k = product(normed, layer.k), v = product(normed, layer.v);
      if (c.bias) {
        add(q, bias_row(layer.q_bias));
        add(k, bias_row(layer.k_bias));
        add(v, bias_row(layer.v_bias));
      }
      rope(q, dim, static_cast<double>(t), c.rope_theta);
      rope(k, dim, static_cast<double>(t), c.rope_theta);
      keys.push_back(std::move(k));
      values.push_back(std::move(v));
      add(rows[t], product(attend(q, keys, values, dim), layer.o));
      const Row normed2 = rms_norm(rows[t], layer.norm2, c.norm_epsilon);
      Row gate = product(normed2, layer.gate);
      const Row up = product(normed2, layer.up);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(rows[t], product(gate, layer.down));
    }
  }
  const Row result = product(rms_norm(rows.back(), norm, c.norm_epsilon), head);
  std::vector<float> out;
  for (const double value : result) out.push_back(static_cast<float>(value));
  return out;
}

std::vector<std::int64_t> TinyLlama::greedy(std::vector<std::int64_t> ids,
                                            std::int64_t count) const {
  std::vector<std::int64_t> made;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto scores = logits(ids);
    made.push_back(std::max_element(scores.begin(), scores.end()) - scores.begin());
    ids.push_back(made.back());
  }
  return made;
}

}  // namespace llmc::testing
