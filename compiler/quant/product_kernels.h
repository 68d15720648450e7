#pragma once

#include <cstddef>
#include <span>

#include "compiler/quant/products.h"

/// The inner loops of products.h, for products.cpp and its tests.
namespace llmc::quant {

/// Columns of the left operand that lie side by side when it is packed.
inline constexpr std::size_t kPanelHeight = 12;
inline constexpr std::size_t kVectorBytes = 64;
/// Columns of the right operand that lie side by side.
template <class T>
inline constexpr std::size_t kPanelWidth = kVectorBytes / sizeof(T);

/// The same loops compiled for an instruction set. `floats` and `doubles` add the products of
/// packed operands [panels][depth][kPanelHeight] and [panels][depth][kPanelWidth], whose last
/// panels are padded, to a result without padding. `lanes` is add_lanes().
struct ProductKernels {
  const char* name;
  void (*floats)(const float* a, const float* b, MatrixView<float> c, std::size_t depth);
  void (*doubles)(const double* a, const double* b, MatrixView<double> c, std::size_t depth);
  void (*lanes)(const float* a, std::size_t width, const float* b, float* c, std::size_t depth);
};

/// Returns the kernels that run on this processor, the fastest last.
std::span<const ProductKernels> product_kernels();

}  // namespace llmc::quant
