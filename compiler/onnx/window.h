#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/node_context.h"

/// The attributes that Conv and the pooling operators share.
namespace llmc::importer {

/// A window that moves over the spatial dims of x[N, C, …]. Each vector has one number per dim.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> pads_begin, pads_end;  // elements before and after the dim

  std::size_t rank() const { return kernel.size(); }
  /// Returns the number of elements that one position spans along dim d, including gaps of
  /// dilation.
  std::int64_t extent(std::size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }
  bool has_pads() const;
};

/// Returns the window that the attributes of this node specify, and sets `mode` to 'auto_pad'. The
/// window has no pads if `mode` is not NOTSET. Reports an error and returns nullopt if an attribute
/// is invalid or x does not have two dims more than the kernel.
std::optional<Window> explicit_window(NodeContext& n, ir::ValueId x,
                                      std::vector<std::int64_t> kernel, std::string& mode);
/// Returns the window of this node, with pads computed from 'auto_pad'. Reports an error and
/// returns nullopt if an attribute is invalid, or if pads depend on a size that is not known. If
/// `ceil_pads` is not null, also applies 'ceil_mode' and sets `ceil_pads` to the elements that it
/// adds to pads_end. Otherwise 'ceil_mode' is not read.
std::optional<Window> padded_window(NodeContext& n, ir::ValueId x, std::vector<std::int64_t> kernel,
                                    std::vector<std::int64_t>* ceil_pads = nullptr);

/// Returns x with elements of `value` before and after its spatial dims; negative pads remove
/// elements.
ir::ValueId padded(NodeContext& n, ir::ValueId x, const std::vector<std::int64_t>& begin,
                   const std::vector<std::int64_t>& end, double value);

/// Returns the spatial dims of a weight. Reports an error if they are not known or differ from
/// 'kernel_shape'.
std::vector<std::int64_t> kernel_of(NodeContext& n, ir::ValueId weight);

/// Returns y[N, C, …] + bias[C]; y if there is no bias.
ir::ValueId with_bias(NodeContext& n, ir::ValueId y, ir::ValueId bias);

}  // namespace llmc::importer
