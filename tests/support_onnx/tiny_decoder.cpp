#include "tests/support_onnx/tiny_decoder.h"

#include <cmath>

namespace llmc::testing {

namespace {

using onnx::TensorProto;
using Cache = DecoderForm::Cache;
using Mask = DecoderForm::Mask;
using Positions = DecoderForm::Positions;
using Rope = DecoderForm::Rope;
using Mlp = DecoderForm::Mlp;
using LayerScale = DecoderForm::LayerScale;
using Names = std::vector<std::string>;

constexpr std::int64_t kLayers = 2, kHidden = 16, kHeads = 4, kKv = 2, kDim = 4, kInner = 12,
                       kVocabulary = 24, kOne = 1;

class Writer {
 public:
  explicit Writer(const DecoderForm& form) : f_(form), b_(form.opset, form.float_type) {}

  OnnxBuilder write() {
    inputs();
    past_ = size(form_is(Cache::kStacked)                                    ? 4
                 : form_is(Cache::kJoined)                                   ? 3
                 : form_is(Cache::kSequenceFirst) || form_is(Cache::kTurned) ? 1
                                                                             : 2);
    count_ = b_.node("Gather", {b_.node("Shape", {"input_ids"}), b_.integer(1)});
    total_ = b_.node("Add", {past_, count_});
    positions();
    if (f_.mask != Mask::kGroupQuery) mask();
    if (f_.rope != Rope::kTable && f_.rope != Rope::kNone) {
      const RopeAngles angles = rope_angles(b_, f_.rope, positions_, f_.float_type);
      cos_ = angles.cosines, sin_ = angles.sines;
    }
    auto x = b_.node("Gather", {weight("table", {kVocabulary, kHidden}, 1), "input_ids"});
    for (layer_ = 0; layer_ < kLayers; ++layer_) x = layer(x);
    auto logits = b_.node("MatMul", {norm(x), weight("head", {kHidden, kVocabulary}, 0.5f)}, {},
                          f_.softcap ? "" : "logits");
    if (f_.softcap) capped(logits, 8, "logits");
    b_.float_output("logits", {"batch", "seq", kVocabulary});
    for (const auto& name : presents_) b_.float_output(name, {});
    if (f_.merged) {
      Names outputs{"logits"};
      outputs.insert(outputs.end(), presents_.begin(), presents_.end());
      put_into_branch(b_, outputs);
    }
    return std::move(b_);
  }

 private:
  bool form_is(Cache cache) const { return f_.cache == cache; }
  std::string op(const std::string& type, const Names& inputs,
                 const std::vector<Attribute>& attributes = {}) {
    return b_.node(type, inputs, attributes);
  }
  std::string weight(const std::string& name, const std::vector<std::int64_t>& dims, float scale) {
    std::int64_t count = 1;
    for (const auto d : dims) count *= d;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      seed_ = seed_ * 1664525u + 1013904223u;
      const float unit = static_cast<float>(seed_ >> 8) / 8388608.0f - 1;
      values.push_back(round_to(unit * scale, f_.float_type));
    }
    return b_.floats(name + std::to_string(counter_++), dims, values);
  }
  std::string transpose(const std::string& x, const std::vector<std::int64_t>& perm) {
    return op("Transpose", {x}, {{"perm", perm}});
  }
  std::string concat(const Names& parts, std::int64_t axis, const std::string& result = {}) {
    return b_.node("Concat", parts, {{"axis", axis}}, result);
  }
  std::string cut(const std::string& x, std::int64_t begin, std::int64_t end, std::int64_t axis) {
    return op("Slice", {x, b_.integers({begin}), b_.integers({end}), b_.integers({axis})});
  }
  std::string size(std::int64_t axis) {
    return op("Gather", {op("Shape", {caches_[0]}), b_.integer(axis)});
  }
  std::string cast(const std::string& x, int type) {
    return op("Cast", {x}, {{"to", std::int64_t{type}}});
  }

  void inputs() {
    b_.input("input_ids", TensorProto::INT64, {"batch", "seq"});
    if (f_.mask == Mask::kTriangle || f_.mask == Mask::kGroupQuery ||
        f_.positions == Positions::kSummed)
      b_.input("attention_mask", TensorProto::INT64, {"batch", "total"});
    if (f_.mask == Mask::kGivenFloats)
      b_.float_input("attention_mask", {"batch", kOne, "seq", "total"});
    if (f_.mask == Mask::kGivenBools)
      b_.input("attention_mask", TensorProto::BOOL, {"batch", kOne, "seq", "total"});
    if (f_.positions == Positions::kInput) {
      std::vector<DeclaredDim> dims{"batch", "seq"};
      if (has_sections(f_.rope)) dims.insert(dims.begin(), std::int64_t{3});
      b_.input("position_ids", TensorProto::INT64, dims);
    }
    if (f_.positions == Positions::kCachePosition)
      b_.input("cache_position", TensorProto::INT64, {"seq"});
    if (f_.merged) b_.input("use_cache_branch", TensorProto::BOOL, {kOne});
    if (form_is(Cache::kStacked)) {
      caches_.push_back(b_.float_input("past_key_values",
                                       {kLayers, std::int64_t{2}, "batch", kKv, "past", kDim}));
      return;
    }
    const std::int64_t tensors = form_is(Cache::kJoined) ? kLayers : 2 * kLayers;
    for (std::int64_t i = 0; i < tensors; ++i) {
      const std::string which = i % 2 ? ".value" : ".key";
      std::string name = "past_key_values." + std::to_string(i / 2) + which;
      if (form_is(Cache::kJoined)) name = "past_" + std::to_string(i);
      if (f_.plain_names) name = "t" + std::to_string(i);
      std::vector<DeclaredDim> dims{"batch", kKv, "past", kDim};
      if (form_is(Cache::kSequenceFirst) || form_is(Cache::kTurned))
        dims = {"batch", "past", kKv, kDim};
      if (form_is(Cache::kJoined)) dims = {std::int64_t{2}, "batch", kKv, "past", "width"};
      caches_.push_back(b_.float_input(name, dims));
    }
  }

  void positions() {
    switch (f_.positions) {
      case Positions::kInput:
        positions_ = "position_ids";
        break;
      case Positions::kCachePosition:
        positions_ = b_.unsqueeze("cache_position", {0});
        break;
      case Positions::kCounted:
        positions_ = b_.unsqueeze(op("Range", {past_, total_, b_.integer(1)}), {0});
        break;
      case Positions::kSummed: {
        const auto sums =
            op("Sub", {op("CumSum", {"attention_mask", b_.integer(1)}), b_.integer(1)});
        const auto hidden = op("Equal", {"attention_mask", b_.integer(0)});
        const auto filled = op("Where", {hidden, b_.integer(1), sums});
        const auto begin = b_.unsqueeze(op("Neg", {count_}), {0});
        positions_ = op("Slice", {filled, begin, b_.integers({INT64_MAX}), b_.integers({1})});
        break;
      }
    }
  }

  void mask() {
    const auto zero = b_.integer(0), one = b_.integer(1);
    const auto low = b_.scalar(-30000), nil = b_.scalar(0);
    const auto keys = op("Range", {zero, total_, one});
    const auto rows = b_.unsqueeze(op("Add", {op("Range", {zero, count_, one}), past_}), {1});
    switch (f_.mask) {
      case Mask::kCompared:
        mask_ = op("Where", {op("LessOrEqual", {keys, rows}), nil, low});
        break;
      case Mask::kWindow: {
        const auto near = op("Greater", {keys, op("Sub", {rows, b_.integer(3)})});
        const auto seen = op("And", {op("Not", {op("Greater", {keys, rows})}), near});
        mask_ = op("Where", {seen, nil, low});
        break;
      }
      case Mask::kTriangle: {
        const auto square = concat({b_.unsqueeze(count_, {0}), b_.unsqueeze(count_, {0})}, 0);
        const auto full = op("Expand", {low, square});
        const auto block = concat({b_.unsqueeze(count_, {0}), b_.unsqueeze(past_, {0})}, 0);
        const auto causal = concat(
            {op("Expand", {nil, block}), op("Trilu", {full, b_.integer(1)}, {{"upper", kOne}})}, 1);
        const auto there = cast(b_.unsqueeze("attention_mask", {1, 2}), f_.float_type);
        const auto missing = op("Mul", {op("Sub", {b_.scalar(1), there}), low});
        mask_ = op("Add", {missing, causal});
        break;
      }
      default:
        mask_ = "attention_mask";
    }
  }

  /// Cosines and sines of 32 positions, a row each.
  static std::pair<std::vector<float>, std::vector<float>> angles_of(
      const std::vector<float>& frequencies) {
    std::vector<float> cosines, sines;
    for (int p = 0; p < 32; ++p)
      for (const float frequency : frequencies) {
        cosines.push_back(std::cos(static_cast<float>(p) * frequency));
        sines.push_back(std::sin(static_cast<float>(p) * frequency));
      }
    return {cosines, sines};
  }

  /// [1, heads, seq, 4] with a row of the angles for each token.
  std::string rotate(const std::string& x) {
    if (f_.rope == Rope::kNone) return x;
    if (f_.rope == Rope::kTable) {
      const auto [cosines, sines] = angles_of({1.0f, 0.25f, 1.0f, 0.25f});
      const auto rows = [&](const std::string& name, const std::vector<float>& values) {
        const auto table = b_.floats(name + std::to_string(counter_++), {1, 1, 32, kDim}, values);
        const auto reached =
            op("Slice", {table, b_.integers({0}), b_.unsqueeze(total_, {0}), b_.integers({2})});
        const auto flat = op("Squeeze", {reached, b_.integers({0, 1})});
        return b_.unsqueeze(op("Gather", {flat, positions_}), {1});
      };
      cos_ = rows("cos", cosines);
      sin_ = rows("sin", sines);
    }
    std::string turned;
    if (f_.rope == Rope::kInterleaved) {
      const auto every = [&](std::int64_t begin) {
        return op("Slice", {x, b_.integers({begin}), b_.integers({INT64_MAX}), b_.integers({3}),
                            b_.integers({2})});
      };
      const auto pairs =
          concat({b_.unsqueeze(op("Neg", {every(1)}), {4}), b_.unsqueeze(every(0), {4})}, 4);
      turned = op("Reshape", {pairs, b_.integers({0, 0, -1, kDim})});
    } else {
      turned = concat({op("Neg", {cut(x, 2, INT64_MAX, 3)}), cut(x, 0, 2, 3)}, 3);
    }
    return op("Add", {op("Mul", {x, cos_}), op("Mul", {turned, sin_})});
  }

  std::string root_mean_square(const std::string& x, std::int64_t width) {
    const auto w = weight("norm", {width}, 1);
    if (f_.functions && width == kHidden) {
      b_.raw_node("RMS", {x, w}, {w + "/y"}, {{"epsilon", 1e-5f}}).set_domain("local");
      return w + "/y";
    }
    return root_mean_square_norm(b_, f_.norm, x, w, width);
  }

  /// A branch times the layer's own number.
  std::string scaled(const std::string& branch) {
    const float number = 0.5f + 0.25f * static_cast<float>(layer_);
    switch (f_.layer_scale) {
      case LayerScale::kNone:
        return branch;
      case LayerScale::kScalar:
        return op("Mul", {branch, b_.scalar(number)});
      case LayerScale::kOneElement:
        return op("Div", {branch, b_.floats("scale" + std::to_string(counter_++), {1, 1, 1},
                                            std::vector<float>{number})});
      case LayerScale::kConstantNode:
        return op("Mul", {op("Constant", {}, {{"value_float", number}}), branch});
    }
    return branch;
  }

  std::string norm(const std::string& x) {
    if (f_.functions && !declared_) declare_function();
    if (!f_.layer_norms) return root_mean_square(x, kHidden);
    const auto d = op("Sub", {x, b_.reduce_mean(x, -1)});
    const auto variance = b_.reduce_mean(op("Mul", {d, d}), -1);
    const auto root = op("Sqrt", {op("Add", {variance, b_.scalar(1e-5f)})});
    const auto scaled = op("Mul", {op("Div", {d, root}), weight("scale", {kHidden}, 1)});
    return op("Add", {scaled, weight("shift", {kHidden}, 0.5f)});
  }

  /// RMS(x, w) {epsilon} = SimplifiedLayerNormalization, in a domain of the model's own.
  void declare_function() {
    declared_ = true;
    auto& function = *b_.model.add_functions();
    function.set_name("RMS");
    function.set_domain("local");
    for (const char* name : {"x", "w"}) function.add_input(name);
    function.add_output("y");
    function.add_attribute("epsilon");
    auto& node = *function.add_node();
    node.set_op_type("SimplifiedLayerNormalization");
    for (const char* name : {"x", "w"}) node.add_input(name);
    node.add_output("y");
    auto& epsilon = *node.add_attribute();
    epsilon.set_name("epsilon");
    epsilon.set_ref_attr_name("epsilon");
    epsilon.set_type(onnx::AttributeProto::FLOAT);
  }

  std::string capped(const std::string& x, float cap, const std::string& result = {}) {
    const auto c = b_.scalar(cap);
    return b_.node("Mul", {op("Tanh", {op("Div", {x, c})}), c}, {}, result);
  }

  std::string linear(const std::string& x, std::int64_t in, std::int64_t out) {
    return op("MatMul", {x, weight("w", {in, out}, 0.4f)});
  }

  std::string heads_of(const std::string& x, std::int64_t heads, bool normed) {
    auto y = op("Reshape", {x, b_.integers({1, -1, heads, kDim})});
    if (normed && f_.head_norms) y = root_mean_square(y, kDim);
    return transpose(y, {0, 2, 1, 3});
  }

  std::string repeated(const std::string& x) {
    const auto wide = op("Expand", {b_.unsqueeze(x, {2}), b_.integers({1, 1, kHeads / kKv, 1, 1})});
    return op("Reshape", {wide, b_.integers({1, kHeads, -1, kDim})});
  }

  /// The cache's half with the new tokens, heads first for the attention; its output is noted.
  std::string extend(const std::string& fresh, std::int64_t half) {
    const auto at = static_cast<std::size_t>(form_is(Cache::kJoined) ? layer_ : 2 * layer_ + half);
    std::string present = "present." + std::to_string(layer_) + (half ? ".value" : ".key");
    if (f_.plain_names) present = "r" + std::to_string(at);
    if (form_is(Cache::kStacked)) {
      const auto layer = op("Gather", {caches_[0], b_.integer(layer_)});
      halves_[half] = concat({op("Gather", {layer, b_.integer(half)}), fresh}, 2);
      if (half == 0) return halves_[0];
      const auto both = concat({b_.unsqueeze(halves_[0], {0}), b_.unsqueeze(halves_[1], {0})}, 0);
      stacked_.push_back(b_.unsqueeze(both, {0}));
      if (layer_ + 1 < kLayers) return halves_[1];
      presents_.push_back(concat(stacked_, 0, "presents"));
      return halves_[1];
    }
    if (form_is(Cache::kJoined)) {
      const auto past = op("Gather", {caches_[at], b_.integer(half)});
      halves_[half] = concat({past, fresh}, 2);
      if (half == 1) {
        presents_.push_back("present_" + std::to_string(layer_));
        concat({b_.unsqueeze(halves_[0], {0}), b_.unsqueeze(halves_[1], {0})}, 0, presents_.back());
      }
      return halves_[half];
    }
    presents_.push_back(present);
    const std::vector<std::int64_t> swap{0, 2, 1, 3};
    if (form_is(Cache::kSequenceFirst))
      return transpose(concat({caches_[at], transpose(fresh, swap)}, 1, present), swap);
    if (!form_is(Cache::kTurned)) return concat({caches_[at], fresh}, 2, present);
    const auto all = concat({transpose(caches_[at], swap), fresh}, 2);
    b_.node("Transpose", {all}, {{"perm", swap}}, present);
    return all;
  }

  std::string group_query(const std::string& packed) {
    if (layer_ == 0) {
      auto& set = *b_.model.add_opset_import();
      set.set_domain("com.microsoft");
      set.set_version(1);
      const auto sum =
          op("ReduceSum", {"attention_mask", b_.integers({1})}, {{"keepdims", std::int64_t{0}}});
      seqlens_ = cast(op("Sub", {sum, b_.integers({1})}), TensorProto::INT32);
      total32_ = cast(total_, TensorProto::INT32);
      const auto [cosines, sines] = angles_of({1.0f, 0.25f});
      cos_ = b_.floats("cos_cache", {32, kDim / 2}, cosines);
      sin_ = b_.floats("sin_cache", {32, kDim / 2}, sines);
    }
    const std::string n = std::to_string(layer_);
    presents_.insert(presents_.end(), {"present." + n + ".key", "present." + n + ".value"});
    b_.raw_node("GroupQueryAttention",
                {packed, "", "", caches_[static_cast<std::size_t>(2 * layer_)],
                 caches_[static_cast<std::size_t>(2 * layer_ + 1)], seqlens_, total32_, cos_, sin_},
                {"mixed" + n, "present." + n + ".key", "present." + n + ".value"},
                {{"num_heads", kHeads},
                 {"kv_num_heads", kKv},
                 {"do_rotary", kOne},
                 {"local_window_size", std::int64_t{2}}})
        .set_domain("com.microsoft");
    return "mixed" + n;
  }

  std::string attention(const std::string& x) {
    constexpr std::int64_t kRows = kHeads * kDim, kKvRows = kKv * kDim;
    std::string q, k, v;
    if (f_.packed || f_.mask == Mask::kGroupQuery) {
      const auto all = linear(x, kHidden, kRows + 2 * kKvRows);
      if (f_.mask == Mask::kGroupQuery) return linear(group_query(all), kRows, kHidden);
      q = cut(all, 0, kRows, 2);
      k = cut(all, kRows, kRows + kKvRows, 2);
      v = cut(all, kRows + kKvRows, INT64_MAX, -1);
    } else {
      q = linear(x, kHidden, kRows);
      k = linear(x, kHidden, kKvRows);
      v = linear(x, kHidden, kKvRows);
    }
    q = rotate(heads_of(q, kHeads, true));
    k = extend(rotate(heads_of(k, kKv, true)), 0);
    v = extend(heads_of(v, kKv, false), 1);
    std::string scores, mixed;
    if (f_.grouped) {
      q = op("Reshape", {q, b_.integers({1, kKv, kHeads / kKv, -1, kDim})});
      scores = op("MatMul", {q, transpose(b_.unsqueeze(k, {2}), {0, 1, 2, 4, 3})});
      v = b_.unsqueeze(v, {2});
    } else {
      v = repeated(v);
      scores = op("MatMul", {q, transpose(repeated(k), {0, 1, 3, 2})});
    }
    scores = op("Div", {scores, b_.scalar(2)});
    if (f_.softcap) scores = capped(scores, 5);
    scores = f_.mask == Mask::kGivenBools ? op("Where", {mask_, scores, b_.scalar(-30000)})
                                          : op("Add", {scores, mask_});
    mixed = op("MatMul", {op("Softmax", {scores}, {{"axis", -kOne}}), v});
    if (f_.grouped) mixed = op("Reshape", {mixed, b_.integers({1, kHeads, -1, kDim})});
    const auto rows = op("Reshape", {transpose(mixed, {0, 2, 1, 3}), b_.integers({1, -1, kRows})});
    return linear(rows, kRows, kHidden);
  }

  std::string mlp(const std::string& x) {
    std::string gate, up;
    if (f_.mlp == Mlp::kFused) {
      const auto both = linear(x, kHidden, 2 * kInner);
      gate = cut(both, 0, kInner, -1);
      up = cut(both, kInner, INT64_MAX, -1);
    } else {
      gate = linear(x, kHidden, kInner);
      if (f_.mlp == Mlp::kSilu) up = linear(x, kHidden, kInner);
    }
    if (f_.mlp == Mlp::kGeluTanh) {
      const auto cube = op("Mul", {b_.scalar(0.044715f), op("Pow", {gate, b_.scalar(3)})});
      const auto inner = op("Mul", {b_.scalar(0.7978846f), op("Add", {gate, cube})});
      const auto t = op("Add", {op("Tanh", {inner}), b_.scalar(1)});
      gate = op("Mul", {gate, op("Mul", {b_.scalar(0.5f), t})});
      return linear(gate, kInner, kHidden);
    }
    if (f_.mlp == Mlp::kReluSquared)
      return linear(op("Pow", {op("Relu", {gate}), b_.scalar(2)}), kInner, kHidden);
    return linear(op("Mul", {op("Mul", {gate, op("Sigmoid", {gate})}), up}), kInner, kHidden);
  }

  std::string layer(const std::string& x) {
    const auto rows = norm(x);
    auto mixed = attention(rows);
    if (f_.parallel) return op("Add", {op("Add", {mixed, mlp(rows)}), x});
    if (f_.post_norms) mixed = norm(mixed);
    const auto y = op("Add", {x, scaled(mixed)});
    auto inner = mlp(norm(y));
    if (f_.post_norms) inner = norm(inner);
    inner = scaled(inner);
    return op("Add", {inner, y});
  }

  const DecoderForm& f_;
  OnnxBuilder b_;
  std::uint32_t seed_ = 1;
  int counter_ = 0;
  std::int64_t layer_ = 0;
  bool declared_ = false;
  Names caches_, presents_, stacked_;
  std::string halves_[2], past_, count_, total_, positions_, mask_, cos_, sin_, seqlens_, total32_;
};

}  // namespace

OnnxBuilder tiny_decoder(const DecoderForm& form) {
  return Writer(form).write();
}

}  // namespace llmc::testing
