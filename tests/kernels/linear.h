#pragma once

#include "harness.h"
#include "llmc/kernels/linear.h"
#include "llmc/quant/random.h"
#include "reference.h"

/// What the tests of linear() share.
namespace llmc::test {

template <class W>
inline Aligned<unsigned char> make_weight(std::size_t rows, std::uint64_t seed) {
  Aligned<unsigned char> data(W::bytes);
  packing::fill_weight<W>(data.data(), rows, seed);
  return data;
}

/// Runs a stage in a work area of exactly the published size.
template <class W, class Source, class Epilogue>
void run_linear(const llmc_run& run, const Source& source, const W& weight,
                const Epilogue& epilogue) {
  Aligned<unsigned char> work(
      linear_work_bytes(W::kKind, W::kColumns, Epilogue::kUnitPanels, run.count, run.threads),
      0xff);
  linear(KernelContext{&run, run.count, work.data()}, source, weight, epilogue);
}

template <WeightKind kKind, std::size_t kN, std::size_t kK, Basis kBasis = Basis::kPlain>
struct Case {
  static constexpr std::size_t N = kN, K = kK;
  using W = Weight<kKind, packed_rows(kN), kK, kBasis>;
};

/// The product of a case's weights with each row of x: floats [rows, N].
template <class Case>
std::vector<float> reference_products(const unsigned char* data, const Aligned<float>& x) {
  std::vector<float> products;
  for (std::size_t row = 0; row < x.size() / Case::K; ++row) {
    const auto product = reference_product<typename Case::W>(data, x.data() + row * Case::K);
    products.insert(products.end(), product.begin(), product.begin() + Case::N);
  }
  return products;
}

}  // namespace llmc::test
