#include "tests/support_onnx/tiny_encoder_decoder.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support_onnx/onnx_builder.h"

namespace llmc::testing {

namespace encoder_decoder {
namespace {

using onnx::TensorProto;
using Names = std::vector<std::string>;

constexpr std::int64_t kLayers = 2, kHidden = 16, kHeads = 4, kDim = 4, kInner = 24,
                       kVocabulary = 24, kPositions = 66, kOffset = 2, kDistances = 11;

/// Writes one file. Weights depend on their name only, so that the files of a model agree.
class Writer {
 public:
  explicit Writer(const EncoderDecoderForm& form) : form_(form), b_(form.opset) {}

  OnnxBuilder encoder() {
    std::string x = source_rows();
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string at = "encoder." + std::to_string(i);
      const std::string h = norm(x, at + ".norm");
      x = op("Add", {x, attend(at, h, heads(at + ".k", h), heads(at + ".v", h), mask_)});
      x = mlp(x, at);
    }
    b_.node("Identity", {norm(x, "encoder.norm")}, {}, "last_hidden_state");
    b_.float_output("last_hidden_state", {"batch", "rows", kHidden});
    return std::move(b_);
  }

  OnnxBuilder decoder(bool with_past) {
    const bool has_mask = form_.source == EncoderSource::kTokens;
    if (has_mask) b_.input("encoder_attention_mask", TensorProto::INT64, {"batch", "source"});
    one_token_ = with_past && form_.one_token;
    if (one_token_)
      b_.input("input_ids", TensorProto::INT64, {"batch", std::int64_t{1}});
    else
      b_.input("input_ids", TensorProto::INT64, {"batch", "seq"});
    if (!with_past) b_.float_input("encoder_hidden_states", {"batch", "source", kHidden});
    for (std::int64_t i = 0; with_past && i < kLayers; ++i)
      for (const char* const side : {"decoder", "encoder"})
        for (const char* const half : {"key", "value"})
          if (*side == 'e' || !reads_first_cache(i))
            b_.float_input(cache("past_key_values", i, side, half),
                           {"batch", kHeads, std::string(side) + "_past", kDim});
    const std::string past =
        with_past ? size(cache("past_key_values", 0, "decoder", "key"), 2) : b_.integer(0);
    if (has_mask) mask_ = visible("encoder_attention_mask");
    causal(past);
    std::string x = form_.relative_bias ? op("Gather", {table("tokens", kVocabulary), "input_ids"})
                                        : rows("decoder.", past);
    for (std::int64_t i = 0; i < kLayers; ++i) x = layer(x, i, with_past);
    const std::string head = op("Transpose", {table("tokens", kVocabulary)},
                                {{"perm", std::vector<std::int64_t>{1, 0}}});
    b_.node("Add", {op("MatMul", {norm(x, "decoder.norm"), head}), weight("bias", {kVocabulary})},
            {}, "logits");
    b_.float_output("logits", {"batch", "seq", kVocabulary});
    if (with_past && form_.merged)
      for (std::int64_t i = 0; i < kLayers; ++i)
        for (const char* const half : {"key", "value"}) {
          presents_.push_back(cache("present", i, "encoder", half));
          b_.node("Identity", {cache("past_key_values", i, "encoder", half)}, {}, presents_.back());
        }
    if (form_.reversed && !with_past) std::ranges::reverse(presents_);
    for (const std::string& name : presents_) b_.float_output(name, {});
    return std::move(b_);
  }

 private:
  std::string op(const std::string& type, const Names& inputs,
                 const std::vector<Attribute>& attributes = {}) {
    return b_.node(type, inputs, attributes);
  }
  static std::string cache(const std::string& prefix, std::int64_t layer, const std::string& side,
                           const std::string& half) {
    return prefix + "." + std::to_string(layer) + "." + side + "." + half;
  }
  std::string size(const std::string& x, std::int64_t axis) {
    return op("Gather", {op("Shape", {x}), b_.integer(axis)});
  }
  std::string tokens() { return one_token_ ? b_.integer(1) : size("input_ids", 1); }
  std::string weight(const std::string& name, const std::vector<std::int64_t>& dims,
                     float scale = 0.4f) {
    std::uint64_t state = XXH3_64bits(name.data(), name.size());
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      values.push_back((static_cast<float>(state >> 40) / 8388608.0f - 1) * scale);
    }
    return b_.floats(name, dims, values);
  }
  std::string table(const std::string& name, std::int64_t count) {
    std::string& made = tables_[name];
    if (made.empty()) made = weight(name, {count, kHidden}, 1);
    return made;
  }
  std::string norm(const std::string& x, const std::string& name) {
    return op("LayerNormalization",
              {x, weight(name + ".scale", {kHidden}), weight(name + ".bias", {kHidden})},
              {{"axis", std::int64_t{-1}}});
  }
  std::string linear(const std::string& name, const std::string& x, std::int64_t in,
                     std::int64_t out) {
    const std::string product = op("MatMul", {x, weight(name, {in, out})});
    return op("Add", {weight(name + ".bias", {out}), product});
  }
  /// The projection [batch, heads, tokens, dim].
  std::string heads(const std::string& name, const std::string& x) {
    const std::int64_t tokens = one_token_ ? 1 : -1, count = one_token_ ? -1 : kHeads;
    return op("Transpose",
              {b_.reshape(linear(name, x, kHidden, kHidden), {0, tokens, count, kDim})},
              {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  }
  std::string attend(const std::string& at, const std::string& x, const std::string& keys,
                     const std::string& values, const std::string& mask) {
    const std::string q = op("Mul", {heads(at + ".q", x), b_.scalar(0.5f)});
    const std::string turned =
        op("Transpose", {keys}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
    std::string scores = op("MatMul", {q, turned});
    if (form_.capped) {
      const std::string cap = b_.scalar(0.25f);
      scores = op("Mul", {op("Tanh", {op("Div", {scores, cap})}), cap});
    }
    if (!mask.empty()) scores = op("Add", {scores, mask});
    const std::string rows =
        op("MatMul", {op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), values});
    const std::string joined =
        b_.reshape(op("Transpose", {rows}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}}),
                   {0, one_token_ ? 1 : -1, kHidden});
    return linear(at + ".out", joined, kHidden, kHidden);
  }
  std::string mlp(const std::string& x, const std::string& at) {
    const std::string h = linear(at + ".up", norm(x, at + ".mlp_norm"), kHidden, kInner);
    return op("Add", {x, linear(at + ".down", op("Relu", {h}), kInner, kHidden)});
  }
  /// Token rows with learned positions from `past` on.
  std::string rows(const std::string& at, const std::string& past) {
    const std::string count = tokens();
    const std::string positions = op("Range", {past, op("Add", {past, count}), b_.integer(1)});
    const std::string moved = op("Add", {positions, b_.integer(kOffset)});
    return op("Add", {op("Gather", {table("tokens", kVocabulary), "input_ids"}),
                      op("Gather", {table(at + "positions", kPositions), moved})});
  }
  /// The convolution of x, [batch, in, length], with a bias and Tanh.
  std::string convolved(const std::string& name, const std::string& x, std::int64_t in,
                        std::int64_t out, std::int64_t size, std::int64_t stride) {
    const std::string y =
        op("Conv", {x, weight(name, {out, in, size}), weight(name + ".bias", {out})},
           {{"strides", std::vector<std::int64_t>{stride}}});
    return op("Tanh", {y});
  }
  /// The encoder's input as rows [batch, rows, hidden].
  std::string source_rows() {
    if (form_.source == EncoderSource::kTokens) {
      b_.input("input_ids", TensorProto::INT64, {"batch", "source"});
      b_.input("attention_mask", TensorProto::INT64, {"batch", "source"});
      mask_ = visible("attention_mask");
      return rows("encoder.", b_.integer(0));
    }
    std::string x;
    if (form_.source == EncoderSource::kSamples) {
      b_.float_input("input_values", {"batch", "samples"});
      x = convolved("conv1", b_.unsqueeze("input_values", {1}), 1, 8, 15, 4);
    } else {
      b_.float_input("input_features", {"batch", std::int64_t{8}, std::int64_t{30}});
      x = convolved("conv1", "input_features", 8, 8, 3, 1);
    }
    x = convolved("conv2", x, 8, kHidden, 4, 3);
    return op("Transpose", {x}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  }
  /// Biases [batch, 1, 1, source] of a mask with 1 for visible tokens.
  std::string visible(const std::string& mask) {
    const std::string seen =
        op("Cast", {b_.unsqueeze(mask, {1, 2})}, {{"to", std::int64_t{TensorProto::BOOL}}});
    return op("Where", {seen, b_.scalar(0), b_.scalar(-1e30f)});
  }
  void causal(const std::string& past) {
    const std::string count = tokens(), total = op("Add", {past, count});
    const std::string keys = op("Range", {b_.integer(0), total, b_.integer(1)});
    const std::string queries = b_.unsqueeze(op("Range", {past, total, b_.integer(1)}), {1});
    causal_ = op("Where", {op("LessOrEqual", {keys, queries}), b_.scalar(0), b_.scalar(-1e30f)});
    if (!form_.relative_bias) return;
    const std::string distance = op("Max", {op("Sub", {queries, keys}), b_.integer(0)});
    const std::string bucket = op("Min", {distance, b_.integer(kDistances - 1)});
    const std::string looked = op("Gather", {weight("relative", {kDistances, kHeads}, 2), bucket});
    const std::string by_head =
        op("Transpose", {looked}, {{"perm", std::vector<std::int64_t>{2, 0, 1}}});
    causal_ = op("Add", {b_.unsqueeze(by_head, {0}), causal_});
  }
  /// One half of a cache of the decoder, with the new rows.
  std::string grown(std::int64_t layer, bool with_past, const std::string& half,
                    const std::string& fresh) {
    const std::string present = cache("present", layer, "decoder", half);
    presents_.push_back(present);
    if (!with_past) return b_.node("Identity", {fresh}, {}, present);
    return b_.node("Concat", {cache("past_key_values", layer, "decoder", half), fresh},
                   {{"axis", std::int64_t{2}}}, present);
  }
  bool reads_first_cache(std::int64_t layer) const { return form_.one_cache && layer > 0; }
  /// One half of the state of the source.
  std::string of_source(std::int64_t layer, bool with_past, const std::string& half) {
    if (with_past) return cache("past_key_values", layer, "encoder", half);
    const std::string present = cache("present", layer, "encoder", half);
    presents_.push_back(present);
    const std::string name =
        "decoder." + std::to_string(layer) + ".cross." + std::string(1, half[0]);
    std::string rows = heads(name, "encoder_hidden_states");
    if (form_.batch_of_tokens) {
      const std::string shape =
          op("Concat", {b_.unsqueeze(size(hidden_, 0), {0}), b_.integers({kHeads, -1, kDim})},
             {{"axis", std::int64_t{0}}});
      rows = op("Reshape", {rows, shape});
    }
    if (form_.twice && layer == 1)
      return b_.node("Concat", {rows, rows}, {{"axis", std::int64_t{2}}}, present);
    return b_.node("Identity", {rows}, {}, present);
  }
  std::string layer(std::string x, std::int64_t i, bool with_past) {
    const std::string at = "decoder." + std::to_string(i);
    const std::string h = norm(x, at + ".norm");
    if (!reads_first_cache(i)) {
      keys_ = grown(i, with_past, "key", heads(at + ".k", h));
      values_ = grown(i, with_past, "value", heads(at + ".v", h));
    }
    x = op("Add", {x, attend(at, h, keys_, values_, causal_)});
    hidden_ = x;
    const std::string source_keys = of_source(i, with_past, "key");
    const std::string source_values = of_source(i, with_past, "value");
    const std::string cross = at + ".cross";
    x = op("Add", {x, attend(cross, norm(x, cross + ".norm"), source_keys, source_values, mask_)});
    return mlp(x, at);
  }

  EncoderDecoderForm form_;
  OnnxBuilder b_;
  std::string mask_, causal_, keys_, values_, hidden_;
  std::map<std::string, std::string> tables_;
  Names presents_;
  bool one_token_ = false;
};

/// Both decoders as the branches of an If on use_cache_branch.
OnnxBuilder merged_decoder(const EncoderDecoderForm& form) {
  OnnxBuilder past = Writer(form).decoder(true), first = Writer(form).decoder(false);
  OnnxBuilder b(form.opset);
  Names outputs;
  for (const auto& output : past.graph().output()) outputs.push_back(output.name());
  std::set<std::string> inputs;
  for (OnnxBuilder* branch : {&first, &past}) {
    for (const auto& input : branch->graph().input())
      if (inputs.insert(input.name()).second) *b.graph().add_input() = input;
    branch->graph().clear_input();
    // Outputs in the order of the other branch.
    const auto declared = branch->graph().output();
    branch->graph().clear_output();
    for (const std::string& name : outputs)
      for (const auto& output : declared)
        if (output.name() == name) *branch->graph().add_output() = output;
  }
  b.input("use_cache_branch", TensorProto::BOOL, {std::int64_t{1}});
  auto& node = b.raw_node("If", {"use_cache_branch"}, outputs);
  for (const auto& [name, branch] :
       {std::pair("then_branch", &past), std::pair("else_branch", &first)}) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    *attribute.mutable_g() = branch->graph();
  }
  for (const std::string& name : outputs) b.float_output(name, {});
  return b;
}

}  // namespace
}  // namespace encoder_decoder

void write_tiny_encoder_decoder(const std::filesystem::path& folder,
                                const EncoderDecoderForm& form) {
  using encoder_decoder::Writer;
  Writer(form).encoder().save(folder / "encoder_model.onnx");
  if (form.merged)
    return encoder_decoder::merged_decoder(form).save(folder / "decoder_model_merged.onnx");
  Writer(form).decoder(false).save(folder / "decoder_model.onnx");
  Writer(form).decoder(true).save(folder / "decoder_with_past_model.onnx");
}

}  // namespace llmc::testing
