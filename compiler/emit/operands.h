#pragma once

#include <cstdint>
#include <string>

#include "compiler/emit/stage_calls.h"

namespace llmc::emit {

/// Returns C++ expressions for the buffers, weights and numbers of the stages of one function.
class Operands {
 public:
  explicit Operands(const FunctionContext& context)
      : context_(context), program_(context.plan.program), plain_(program_.is_plain()) {}

 protected:
  using BufferId = plan::BufferId;
  using WeightRef = plan::WeightRef;

  const DimNames& dims() const { return context_.nests.dims(); }
  std::string row_count(const plan::Size& rows) const;
  /// Returns the name of a decoder's buffer, the address of a plain graph's.
  std::string buffer(BufferId id) const;
  /// Returns the address in a buffer of a plain graph: "m.at<float>(kName) + 64".
  std::string pointer(const plan::BufferArgument& argument) const;
  /// Returns the number of elements in a row: "kHidden" or a number.
  std::string width(BufferId id, std::uint64_t elements) const;

  const plan::PackedWeight& weight(WeightRef ref) const;
  /// Returns the offset of a weight: a constant, or a field of this layer's weight table.
  std::string offset(WeightRef ref) const;
  /// Returns the address of packed rows.
  std::string packed(WeightRef ref) const;
  /// Returns the address of f32 values; "nullptr" if there are none.
  std::string vector(WeightRef ref) const;

  /// Returns the layer in the cache: "layer_index + 1", or a number outside loops.
  std::string layer(std::uint32_t number) const;
  std::string angles(const plan::Angles& a) const;
  /// Returns "kHeadDim" or a number.
  std::string rotary_dim(std::uint64_t dim) const;
  /// Returns "Rotation{.dims = kHeadDim}".
  std::string rotation(const plan::Angles& a) const;

  const FunctionContext& context_;
  const plan::Program& program_;
  const bool plain_;  // a plain graph: buffers hold all rows
};

}  // namespace llmc::emit
