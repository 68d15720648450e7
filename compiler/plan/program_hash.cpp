#include "compiler/plan/program_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>
#include <variant>

namespace llmc::plan {
namespace {

/// Hashes the numbers of a program as bytes: 8 bytes each, little-endian.
class HashWriter {
 public:
  void stages(const std::vector<Stage>& list) {
    put(list.size());
    for (const Stage& stage : list) {
      put(stage.op.index());
      std::visit([&](const auto& op) { write(op); }, stage.op);
    }
  }
  /// Adds the format of a weight, but not its location. Adds the number of rows only for matrices,
  /// because position tables end at the context.
  void weight(const PackedWeight& w) {
    put(w.use, unsplit(w.matrix), w.table, w.order, w.pad_rows, w.heads, w.kv_heads, w.head_dim,
        w.columns, w.use == WeightUse::kMatrix ? w.rows : 0);
    if (w.basis != Basis::kPlain) put(w.basis);
  }
  template <class... Values>
  void put(const Values&... values) {
    (one(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void word(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> 8 * i & 0xFF);
  }
  template <class T>
  void one(const T& value) {
    if constexpr (std::is_same_v<T, float>) {
      word(std::bit_cast<std::uint32_t>(value));
    } else {
      static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
      word(static_cast<std::uint64_t>(value));
    }
  }
  void one(const Size& size) { one(size.bound()); }  // a decoder has no open dims
  void one(const BufferId& buffer) { word(buffer.index); }
  void one(const WeightRef& weight) { put(weight.index, weight.per_layer); }
  void one(const NormInput& norm) { put(norm.weight, norm.epsilon, norm.kind, norm.bias); }
  void one(const Angles& angles) {
    put(angles.buffer, angles.table, angles.rotary_dim, angles.interleaved);
  }
  void one(const AttentionShape& shape) { put(shape.heads, shape.kv_heads, shape.head_dim); }

  void write(const EmbeddingStage& s) { put(s.table, s.out, s.by_position); }
  void write(const LinearStage& s) {
    put(s.epilogue, s.function, s.source, s.norm, s.weight, s.bias, s.residual, s.out, s.n, s.k);
    if (s.more_rows.exists()) put(s.more_rows);
    if (s.experts != 0) put(s.ids, s.experts, s.slots);
    if (s.windows) {
      view(s.windows->first);
      view(s.windows->elements);
    }
  }
  void write(const InputRowsStage& s) { put(s.out, s.width); }
  void write(const QuantizeStage& s) { put(s.x, s.out, s.weight, s.k); }
  void write(const RopeAnglesStage& s) {
    put(s.frequencies, s.rotary_dim, s.out);
    if (!s.position_axes.empty()) put(std::uint64_t{s.position_axes.size()});
    for (const std::uint8_t axis : s.position_axes) put(std::uint64_t{axis});
  }
  void write(const QkvStage& s) {
    put(s.shape, s.source, s.norm, s.weight, s.bias, s.value_weight, s.q_norm, s.k_norm,
        s.qk_norm_epsilon, s.angles, s.q, s.layer, s.k);
  }
  void write(const QkvFinishStage& s) {
    write(s.projection);
    put(s.product);
  }
  void write(const AttentionStage& s) {
    put(s.shape, s.scale, s.softcap, s.window, s.q, s.out, s.layer);
    if (s.chunked) put(s.chunked);
    if (s.bias.exists()) put(s.bias, s.bias_by_key);
    if (s.sinks.exists()) put(s.sinks);
  }
  void write(const CrossAttentionStage& s) {
    put(s.shape, s.scale, s.q, s.out, s.layer);
    if (s.softcap > 0) put(s.softcap);
  }
  void write(const SourceStoreStage& s) {
    put(s.shape, s.formats.keys, s.formats.values, s.x, s.out, s.rows, s.max_rows);
  }
  void write(const StateStoreStage& s) { put(s.next, s.slot); }
  void write(const NormStage& s) { put(s.x, s.out, s.residual, s.norm, s.width, s.parts); }
  void write(const RopeStage& s) { put(s.x, s.out, s.angles, s.heads, s.head_dim); }
  void write(const KvStoreStage& s) { put(s.shape, s.k, s.v, s.layer); }
  void write(const GatedStage& s) { put(s.function, s.gate, s.up, s.out, s.width); }
  void write(const BinaryStage& s) {
    put(s.kind, s.a, s.b, s.out, s.row, s.value, s.width);
    if (s.number.exists())
      put(s.number);  // absent ones add nothing, which keeps earlier hashes valid
  }
  void write(const UnaryStage& s) { put(s.kind, s.x, s.out, s.width); }
  void write(const CopyStage& s) { put(s.x, s.out, s.width); }
  void view(const View& v) {
    put(v.buffer, v.offset, v.dims.size());
    for (std::size_t d = 0; d < v.dims.size(); ++d) put(v.dims[d], v.strides[d]);
  }
  void write(const MapStage& s) {
    view(s.target);
    const std::vector<const Expression*> nodes = nodes_of(s.value);
    for (const Expression* e : nodes) {
      put(e->kind, e->type, e->unary, e->binary, e->operands.size());
      view(e->view);
      if (e->number)
        for (const std::byte byte : e->number->bytes()) put(byte);
      for (const ExpressionPtr& operand : e->operands)
        put(static_cast<std::uint64_t>(std::ranges::find(nodes, operand.get()) - nodes.begin()));
    }
  }
  void write(const CallStage& s) {
    bytes_ += s.kernel;
    for (const ir::ElementType type : s.types) put(type);
    for (const std::string_view tag : s.tags) bytes_ += tag;
    for (const BufferArgument& b : s.buffers) put(b.buffer, b.offset, b.written);
    for (const CallStage::Number& argument : s.numbers) {
      const auto& number = argument.value;
      put(number.index());
      if (const auto* sizes = std::get_if<Sizes>(&number)) {
        for (const Size& size : *sizes) put(size);
      } else if (const auto* integer = std::get_if<Size>(&number)) {
        put(*integer);
      } else if (const auto* real = std::get_if<float>(&number)) {
        put(*real);
      } else {
        put(std::get<bool>(number));
      }
    }
  }
  void write(const LoopStage& s) {
    put(s.count, s.first_layer, s.layers_per_pass, s.fields.size());
    for (const LoopStage::Field& field : s.fields) {
      put(field.weights.size());
      for (const std::uint32_t weight : field.weights) put(weight);
    }
    stages(s.body);
  }

  std::string bytes_;
};

}  // namespace

std::uint64_t program_hash(const Program& program, const Program* encoder) {
  HashWriter writer;
  writer.stages(program.forward);
  writer.stages(program.head);
  writer.put(program.hidden.index, program.row.index, program.logits.index, program.layers,
             program.hidden_width, program.vocabulary, program.weights.size());
  for (const PackedWeight& weight : program.weights) writer.weight(weight);
  if (encoder != nullptr) writer.put(program_hash(*encoder));
  const std::uint64_t hash = XXH64(writer.bytes().data(), writer.bytes().size(), 0);
  return hash != 0 ? hash : 1;
}

}  // namespace llmc::plan
