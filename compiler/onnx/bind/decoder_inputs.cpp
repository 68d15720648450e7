#include "compiler/onnx/bind/decoder_inputs.h"

#include <algorithm>

#include "compiler/onnx/limits.h"
#include "compiler/onnx/tensor.h"
#include "compiler/support/lower_case.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ValueId;

struct Declared {
  std::optional<ElementType> element;  // type used in the IR: f32 for f16 and bf16
  std::int64_t rank = -1;              // -1: not declared
  std::vector<std::optional<std::int64_t>> sizes;
};

Declared declared(const onnx::ValueInfoProto& value) {
  Declared out;
  const auto& tensor = value.type().tensor_type();
  out.element = element_type(tensor.elem_type());
  if (out.element == ElementType::kF16 || out.element == ElementType::kBF16)
    out.element = ElementType::kF32;
  if (!tensor.has_shape()) return out;
  out.rank = tensor.shape().dim_size();
  for (const auto& dim : tensor.shape().dim())
    out.sizes.push_back(dim.has_dim_value() ? std::optional(dim.dim_value()) : std::nullopt);
  return out;
}

InputRole role_of(const onnx::ValueInfoProto& value) {
  const std::string name = lower_case(value.name());
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  const Declared type = declared(value);
  if (!type.element) return InputRole::kUnknown;
  const bool integer = ir::is_integer(*type.element);
  if (has("use_cache")) return InputRole::kUseCache;
  const bool of_source = has("encoder");
  if (has("mask")) return of_source ? InputRole::kSourceMask : InputRole::kMask;
  if (integer) {
    if (has("logits_to_keep")) return InputRole::kKeptLogits;
    if (has("seqlens_k")) return InputRole::kLastToken;
    if (has("total_seq") || has("total_len")) return InputRole::kTotalLength;
    if (has("past_seq") || has("past_len") || has("cache_len") || has("start_pos"))
      return InputRole::kPastLength;
    if (has("position")) return type.rank == 0 ? InputRole::kPastLength : InputRole::kPositions;
    if (has("token_type") || has("segment_ids")) return InputRole::kTokenTypes;
    if (has("input_id") || has("token") || name == "ids" || name == "input" || name == "idx" ||
        name == "x")
      return InputRole::kIds;
    return InputRole::kUnknown;
  }
  if (*type.element != ElementType::kF32) return InputRole::kUnknown;
  if (has("embed") || has("hidden_states"))
    return of_source ? InputRole::kSourceRows : InputRole::kEmbeddings;
  if (of_source && type.rank == 4) return InputRole::kSourceState;
  if (type.rank == 4 || type.rank == 5) return InputRole::kPossibleCache;
  return InputRole::kUnknown;
}

/// Returns whether a mask has one row that applies to all new tokens.
bool is_padding_mask(const Part& part, const Declared& mask) {
  const auto rows = mask.sizes.size() >= 2 ? mask.sizes[mask.sizes.size() - 2] : std::nullopt;
  if (rows != 1) return false;
  for (const char* name : {"input_ids", "inputs_embeds"})
    if (const auto* ids = part.input(name)) {
      const Declared type = declared(*ids);
      return type.sizes.size() < 2 || type.sizes[1] != 1;
    }
  return true;
}

bool is_additive(const Declared& mask) {
  return mask.element == ElementType::kF32 && mask.rank >= 3;
}

/// Axes of the positions of multimodal RoPE: time, height and width. Models of the transformers
/// library may have another row before them, with the positions of the tokens in the sequence.
constexpr std::int64_t kPositionAxes = 3, kMaxPositionAxes = 16;

bool has_position_axes(const Declared& positions) {
  return positions.rank == 3 && positions.sizes[0] != 1;
}
std::int64_t declared_rows(const Declared& positions) {
  return positions.sizes[0].value_or(kPositionAxes);
}
/// Returns whether the first row has the positions of the tokens in the sequence.
bool has_sequence_row(const Declared& positions) {
  return declared_rows(positions) == kPositionAxes + 1;
}
std::int64_t declared_axes(const Declared& positions) {
  return declared_rows(positions) - (has_sequence_row(positions) ? 1 : 0);
}

/// Computes the values of the inputs.
class Binder {
 public:
  Binder(ir::Builder& builder, const Part& part, const InputSources& sources)
      : b_(builder), part_(part), sources_(sources) {}

  Result<ValueId> bind(const onnx::ValueInfoProto& value, InputRole role) {
    origin_ = {part_.file->name, value.name()};
    const Declared type = declared(value);
    switch (role) {
      case InputRole::kIds:
        return ids(type, sources_.ids);
      case InputRole::kTokenTypes: {
        LLMC_TRY(const ValueId shape, b_.add_one(ir::Shape{0, 1}, {sources_.ids}, origin_));
        LLMC_TRY(const ValueId zeros,
                 b_.add_one(ir::ConstantOfShape{ir::make_splat(ElementType::kI64, {1}, 0)}, {shape},
                            origin_));
        return ids(type, zeros);
      }
      case InputRole::kEmbeddings:
        if (!sources_.embeddings.exists()) break;
        return rows(type);
      case InputRole::kMask:
        return mask(type);
      case InputRole::kSourceMask:
        if (!sources_.source.exists() || type.rank > 4) break;
        return filled(type.rank < 0 ? 2 : type.rank, *type.element, is_additive(type) ? 0 : 1,
                      sources_.source);
      case InputRole::kPositions:
        return positions(type);
      case InputRole::kUseCache:
        return scalar(type, ir::make_splat(ElementType::kBool, {1}, 1));
      case InputRole::kKeptLogits:
        return scalar(type, ir::make_i64({1}, {1}));
      case InputRole::kPastLength:
        return length(type, sources_.past);
      case InputRole::kTotalLength: {
        LLMC_TRY(const ValueId count, total());
        return length(type, count);
      }
      case InputRole::kLastToken: {
        LLMC_TRY(const ValueId count, total());
        const ValueId one = b_.constant(ir::make_i64({1}, {1}), {}, origin_);
        LLMC_TRY(const ValueId last,
                 b_.add_one(ir::Binary{BinaryKind::kSub}, {count, one}, origin_));
        return length(type, last);
      }
      case InputRole::kSourceRows:
      case InputRole::kSourceState:
      case InputRole::kPossibleCache:
      case InputRole::kUnknown:
        break;
    }
    return part_.unsupported(
        "unknown input: neither token ids, mask, positions nor cache",
        "a decoder's inputs are input_ids, attention_mask, position_ids and the caches",
        value.name());
  }

 private:
  Result<ValueId> cast(ValueId value, const Declared& type) {
    if (!type.element || b_.graph().value(value).type.element == *type.element) return value;
    return b_.add_one(ir::Cast{*type.element}, {value}, origin_);
  }

  /// Returns the ids in the declared rank: [seq] or [1, seq].
  Result<ValueId> ids(const Declared& type, ValueId value) {
    if (type.rank != 1) {
      LLMC_TRY(value, b_.add_one(ir::Unsqueeze{{0}}, {value}, origin_));
    }
    return cast(value, type);
  }

  /// Returns the embedded rows in the declared rank. If both dims before the last one are open,
  /// they are [1, seq].
  Result<ValueId> rows(const Declared& type) {
    LLMC_TRY(const ValueId value, fit_hidden(b_, part_, origin_.node, sources_.embeddings));
    const auto& dims = b_.graph().value(value).type.dims;
    const bool open = type.rank == 3 && !type.sizes[0] && !type.sizes[1];
    if (!open || (dims.size() == 3 && dims[0] == ir::Dim(1))) return value;
    const ValueId shape =
        b_.constant(ir::make_i64({3}, {1, -1, *dims.back().constant()}), {}, origin_);
    return b_.add_one(ir::Reshape{}, {value, shape}, origin_);
  }

  /// Returns the positions in the declared rank: [seq], [1, seq] or [n, 1, seq].
  Result<ValueId> positions(const Declared& type) {
    ValueId value = sources_.positions;
    if (type.rank == 1) {
      LLMC_TRY(value, b_.add_one(ir::Squeeze{{0}}, {value}, origin_));
    } else if (type.rank == 3 && has_position_axes(type) && sources_.position_axes.exists()) {
      ValueId rows = sources_.position_axes;
      if (b_.graph().value(rows).type.dims[0] != ir::Dim(declared_axes(type)))
        return part_.unsupported("has another number of rows than other positions", {},
                                 origin_.node);
      if (has_sequence_row(type)) {
        LLMC_TRY(rows, b_.add_one(ir::Concat{0}, {value, rows}, origin_));
      }
      LLMC_TRY(value, b_.add_one(ir::Unsqueeze{{1}}, {rows}, origin_));
    } else if (type.rank == 3) {
      const std::int64_t rows = declared_rows(type);
      if (rows < 1 || rows > kMaxPositionAxes)
        return part_.unsupported("has " + std::to_string(rows) + " rows of positions, not 1 to " +
                                     std::to_string(kMaxPositionAxes),
                                 {}, origin_.node);
      const ValueId shape = b_.constant(ir::make_i64({3}, {rows, 1, 1}), {}, origin_);
      LLMC_TRY(value, b_.add_one(ir::Unsqueeze{{0}}, {value}, origin_));
      LLMC_TRY(value, b_.add_one(ir::Expand{}, {value, shape}, origin_));
    }
    return cast(value, type);
  }

  /// Returns one element in the declared rank (0 or 1) and type.
  Result<ValueId> scalar(const Declared& type, const ir::ConstantPtr& data) {
    return length(type, b_.constant(data, {}, origin_));
  }
  Result<ValueId> length(const Declared& type, ValueId value) {
    if (type.rank == 0) {
      LLMC_TRY(value, b_.add_one(ir::Squeeze{{0}}, {value}, origin_));
    } else if (type.rank == 2) {
      LLMC_TRY(value, b_.add_one(ir::Unsqueeze{{0}}, {value}, origin_));
    }
    return cast(value, type);
  }

  Result<ValueId> sequence() { return b_.add_one(ir::Shape{0, 1}, {sources_.ids}, origin_); }
  Result<ValueId> total() {
    LLMC_TRY(const ValueId count, sequence());
    return b_.add_one(ir::Binary{BinaryKind::kAdd}, {sources_.past, count}, origin_);
  }

  /// Returns a tensor [1, …, 1, length] filled with one value.
  Result<ValueId> filled(std::int64_t rank, ElementType element, double value, ValueId shape) {
    if (rank > 1) {
      const std::vector<std::int64_t> ones(static_cast<std::size_t>(rank) - 1, 1);
      const ValueId lead = b_.constant(ir::make_i64({rank - 1}, ones), {}, origin_);
      LLMC_TRY(shape, b_.add_one(ir::Concat{0}, {lead, shape}, origin_));
    }
    return b_.add_one(ir::ConstantOfShape{ir::make_splat(element, {1}, value)}, {shape}, origin_);
  }

  Result<ValueId> mask(const Declared& type) {
    const bool additive = is_additive(type);
    if (type.rank > 4 || type.element == ElementType::kF64) {
      return part_.unsupported("mask of an unsupported type or shape", {}, origin_.node);
    }
    if (type.rank < 3 || is_padding_mask(part_, type)) {
      LLMC_TRY(const ValueId length, total());
      return filled(type.rank < 0 ? 2 : type.rank, *type.element, additive ? 0 : 1, length);
    }
    if (additive) {
      if (type.rank == 4) return sources_.mask;
      return b_.add_one(ir::Squeeze{{0}}, {sources_.mask}, origin_);
    }
    // Causal mask: key <= past + query.
    LLMC_TRY(const ValueId keys, total());
    LLMC_TRY(const ValueId queries, sequence());
    LLMC_TRY(const ValueId columns, count_to(keys));
    LLMC_TRY(ValueId rows, count_to(queries));
    LLMC_TRY(rows, b_.add_one(ir::Binary{BinaryKind::kAdd}, {rows, sources_.past}, origin_));
    LLMC_TRY(rows, b_.add_one(ir::Unsqueeze{{1}}, {rows}, origin_));
    LLMC_TRY(ValueId seen,
             b_.add_one(ir::Binary{BinaryKind::kLessOrEqual}, {columns, rows}, origin_));
    std::vector<std::int64_t> axes{0};
    if (type.rank == 4) axes.push_back(1);
    LLMC_TRY(seen, b_.add_one(ir::Unsqueeze{axes}, {seen}, origin_));
    return cast(seen, type);
  }

  Result<ValueId> count_to(ValueId limit) {
    const ValueId zero = b_.constant(ir::make_i64({}, {0}), {}, origin_);
    const ValueId one = b_.constant(ir::make_i64({}, {1}), {}, origin_);
    LLMC_TRY(const ValueId end, b_.add_one(ir::Squeeze{{0}}, {limit}, origin_));
    return b_.add_one(ir::Range{}, {zero, end, one}, origin_);
  }

  ir::Builder& b_;
  const Part& part_;
  const InputSources& sources_;
  ir::Origin origin_;
};

}  // namespace

bool has_role(const InputRoles& roles, InputRole role) {
  return std::ranges::any_of(roles, [&](const auto& entry) { return entry.second == role; });
}

bool has_encoder_input(const InputRoles& roles) {
  return std::ranges::any_of(
      roles, [](const auto& role) { return role.first.find("encoder") != std::string::npos; });
}

bool reads_source(const InputRoles& roles) {
  return has_role(roles, InputRole::kSourceState);
}

InputRoles input_roles(const Part& part) {
  InputRoles roles;
  std::vector<std::string> unknown_integers;
  for (const auto* value : part.graph.inputs) {
    if (!part.uses(value->name())) continue;
    const InputRole role = roles[value->name()] = role_of(*value);
    const Declared type = declared(*value);
    if (role == InputRole::kUnknown && type.element && ir::is_integer(*type.element) &&
        (type.rank == 1 || type.rank == 2))
      unknown_integers.push_back(value->name());
  }
  // Accept token ids with any name if no other input can contain them.
  const bool named = has_role(roles, InputRole::kIds) || has_role(roles, InputRole::kEmbeddings);
  if (!named && unknown_integers.size() == 1) roles[unknown_integers[0]] = InputRole::kIds;
  return roles;
}

bool has_named_tokens(const Part& part) {
  return std::ranges::any_of(part.graph.inputs, [&](const auto* value) {
    const InputRole role = role_of(*value);
    return part.uses(value->name()) && (role == InputRole::kIds || role == InputRole::kEmbeddings);
  });
}

bool has_position_axes(const Part& part) {
  return std::ranges::any_of(part.graph.inputs, [&](const auto* value) {
    return part.uses(value->name()) && role_of(*value) == InputRole::kPositions &&
           has_position_axes(declared(*value));
  });
}

bool takes_ids(const Part& part) {
  const auto* ids = part.uses("input_ids") ? part.input("input_ids") : nullptr;
  const auto element = ids ? element_type(ids->type().tensor_type().elem_type()) : std::nullopt;
  return element && ir::is_integer(*element);
}

Result<Decoder::Shape> decoder_shape(const Part& part, const FoundCaches& caches,
                                     const SourceStates& sources) {
  if (caches.layers.size() > static_cast<std::size_t>(kMaxLayers))
    return part.bad("has more than " + std::to_string(kMaxLayers) + " caches");
  Decoder::Shape shape;
  shape.cache = caches.shape;
  shape.layers = static_cast<std::int64_t>(caches.layers.size());
  shape.sources = static_cast<std::int64_t>(sources.layers.size());
  shape.source_heads = sources.heads;
  shape.source_dim = sources.dim;
  return shape;
}

void set_uses(Decoder::Shape& shape, const Part& part, const InputRoles& roles) {
  // An additive mask with one row per new token is the runtime's attention_mask.
  shape.uses_mask = std::ranges::any_of(roles, [&](const auto& role) {
    if (role.second != InputRole::kMask) return false;
    const Declared type = declared(*part.input(role.first));
    return is_additive(type) && !is_padding_mask(part, type);
  });
  for (const auto& [name, role] : roles) {
    if (role != InputRole::kPositions) continue;
    const Declared type = declared(*part.input(name));
    const bool axes = has_position_axes(type) && declared_rows(type) > 0 &&
                      declared_rows(type) <= kMaxPositionAxes;
    if (axes) shape.position_axes = declared_axes(type);
    if (!axes || has_sequence_row(type)) shape.uses_positions = true;
  }
}

Result<InputSources> decoder_sources(Decoder& decoder, const Part& part) {
  InputSources sources;
  sources.ids = decoder.input_ids();
  sources.positions = decoder.positions();
  sources.position_axes = decoder.position_axes();
  sources.mask = decoder.mask();
  LLMC_TRY(sources.past, decoder.past_length(part));
  if (!decoder.sources().empty()) {
    LLMC_TRY(sources.source, decoder.source_length(part));
  }
  return sources;
}

Result<Bindings> bind_inputs(ir::Builder& builder, const Part& part, const InputRoles& roles,
                             const InputSources& sources) {
  Bindings bindings;
  Binder binder(builder, part, sources);
  for (const auto& [name, role] : roles) {
    LLMC_TRY(bindings.values[name], binder.bind(*part.input(name), role));
  }
  return bindings;
}

}  // namespace llmc::importer
