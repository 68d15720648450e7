#pragma once

#include <cstddef>
#include <span>

#include "compiler/quant/products.h"

/// The inner loops of products.h, for products.cpp and its tests.
namespace llmc::quant {

/// Number of columns of the left operand per packed panel.
inline constexpr std::size_t kPanelHeight = 12;
inline constexpr std::size_t kVectorBytes = 64;
/// Number of columns of the right operand per packed panel.
template <class T>
inline constexpr std::size_t kPanelWidth = kVectorBytes / sizeof(T);

/// The inner loops compiled for one instruction set. `floats` and `doubles` add the products of
/// packed operands to `c`. `a` is [panels][depth][kPanelHeight] and `b` is
/// [panels][depth][kPanelWidth]. Their last panels are padded; `c` is not. `lanes` implements
/// add_lanes().
struct ProductKernels {
  const char* name;
  void (*floats)(const float* a, const float* b, MatrixView<float> c, std::size_t depth);
  void (*doubles)(const double* a, const double* b, MatrixView<double> c, std::size_t depth);
  void (*lanes)(const float* a, std::size_t width, const float* b, float* c, std::size_t depth);
};

/// Returns the kernels that run on this processor, the fastest last.
std::span<const ProductKernels> product_kernels();

}  // namespace llmc::quant
