#include "tests/support_onnx/tiny_recurrent.h"

#include <cmath>

namespace llmc::testing {
namespace {

using onnx::TensorProto;

constexpr std::int64_t kWidth = 16, kWords = 24, kWindow = 3;

class RecurrentWriter {
 public:
  OnnxBuilder write(const RecurrentForm& form) {
    form_ = form;
    b_.input("input_ids", TensorProto::INT64, {"batch", std::int64_t{1}});
    x_ = b_.node("Gather", {weight("table", {kWords, kWidth}), "input_ids"});
    if (form.convolution) convolution();
    if (form.ssm) ssm();
    if (form.attention) attention();
    b_.node("MatMul", {x_, weight("head", {kWidth, kWords})}, {}, "logits");
    b_.float_output("logits", {"batch", std::int64_t{1}, kWords});
    for (const auto& name : presents_) b_.float_output(name, {});
    return std::move(b_);
  }

 private:
  std::string weight(const std::string& name, const std::vector<std::int64_t>& dims) {
    std::int64_t count = 1;
    for (const auto d : dims) count *= d;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(0.6f * std::sin(static_cast<float>(i * i % 97) + static_cast<float>(salt_)));
    ++salt_;
    return b_.floats(name, dims, values);
  }
  std::string project(const std::string& name, std::int64_t columns) {
    return b_.node("MatMul", {x_, weight(name, {kWidth, columns})});
  }
  void add(const std::string& y) { x_ = b_.node("Add", {x_, b_.node("Tanh", {y})}); }

  void convolution() {
    const auto past = b_.float_input("past_conv.0", {"batch", kWidth, kWindow});
    const auto column = b_.node("Transpose", {project("conv_in", kWidth)},
                                {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    const auto all = b_.node("Concat", {past, column}, {{"axis", std::int64_t{-1}}});
    const auto window =
        b_.node("Slice", {all, b_.integers({-kWindow}), b_.integers({INT64_MAX}), b_.integers({2})},
                {}, "present_conv.0");
    presents_.push_back(window);
    const auto sum =
        b_.node("ReduceSum",
                {b_.node("Mul", {window, weight("taps", {kWidth, kWindow})}), b_.integers({-1})},
                {{"keepdims", std::int64_t{0}}});
    add(b_.unsqueeze(sum, {1}));
  }
  void ssm() {
    const auto past =
        b_.float_input("past_ssm.0", {"batch", std::int64_t{4}, std::int64_t{4}, std::int64_t{4}});
    const auto decay = b_.reshape(b_.node("Sigmoid", {project("decay", 4)}), {0, 4, 1, 1});
    const auto in = b_.reshape(project("ssm_in", kWidth), {0, 4, 4, 1});
    const auto key = b_.reshape(project("ssm_key", 4), {0, 1, 1, 4});
    const auto state = b_.node("Add", {b_.node("Mul", {past, decay}), b_.node("Mul", {in, key})},
                               {}, "present_ssm.0");
    presents_.push_back(state);
    const auto query = b_.reshape(project("ssm_query", 4), {0, 1, 4, 1});
    add(b_.reshape(b_.node("MatMul", {state, query}), {0, 1, kWidth}));
  }
  /// Returns the keys of the token plus those of the last two tokens, and adds the last ones to x.
  /// The state of the second is that of the first before the token.
  std::string shifted_keys() {
    const auto key = project("key", kWidth);
    const auto last = b_.float_input("past_shift.0", {"batch", std::int64_t{1}, kWidth});
    const auto second = b_.float_input("past_shift.1", {"batch", std::int64_t{1}, kWidth});
    b_.node("Identity", {key}, {}, "present_shift.0");
    b_.node("Identity", {last}, {}, "present_shift.1");
    presents_.insert(presents_.end(), {"present_shift.0", "present_shift.1"});
    x_ = b_.node("Add", {x_, last});
    const auto both = b_.node("Sub", {last, b_.node("Mul", {second, b_.scalar(0.5f)})});
    return b_.node("Add", {key, both});
  }
  std::string heads(const std::string& rows) {
    return b_.node("Transpose", {b_.reshape(rows, {0, 1, 2, 8})},
                   {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  }
  /// What is added to the scores of all keys: [1, 1, 1, past + 1].
  std::string mask(const std::string& keys, RecurrentForm::Mask kind) {
    const auto count = b_.reshape(
        b_.node("Shape", {keys}, {{"start", std::int64_t{2}}, {"end", std::int64_t{3}}}), {});
    const auto key = b_.node("Range", {b_.integer(0), count, b_.integer(1)});
    if (kind == RecurrentForm::Mask::kBias)
      return b_.reshape(b_.node("Cast", {key}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}}),
                        {1, 1, 1, -1});
    const bool window = kind == RecurrentForm::Mask::kWindow;
    const auto first = window ? b_.node("Sub", {count, b_.integer(5)}) : b_.integer(0);
    const auto seen = b_.node("GreaterOrEqual", {key, first});
    return b_.reshape(b_.node("Where", {seen, b_.scalar(0), b_.scalar(-1e9f)}), {1, 1, 1, -1});
  }
  void attention() {
    const auto row = form_.more_layers > 0 ? weight("row", {1, 1, kWidth}) : std::string();
    for (int i = 0; i < form_.more_layers; ++i) x_ = b_.node("Add", {x_, row});
    const auto keys_of_token = form_.shifts_keys ? shifted_keys() : project("key", kWidth);
    std::vector<std::string> all;
    for (const std::string name : {"key", "value"}) {
      const auto past = b_.float_input("past_key_values.0." + name,
                                       {"batch", std::int64_t{2}, "past", std::int64_t{8}});
      all.push_back(b_.node("Concat",
                            {past, heads(name == "key" ? keys_of_token : project(name, kWidth))},
                            {{"axis", std::int64_t{2}}}, "present.0." + name));
      presents_.push_back(all.back());
    }
    const auto keys =
        b_.node("Transpose", {all[0]}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
    auto scores = b_.node(
        "Mul", {b_.node("MatMul", {heads(project("query", kWidth)), keys}), b_.scalar(0.35f)});
    if (form_.mask != RecurrentForm::Mask::kNone)
      scores = b_.node("Add", {scores, mask(all[0], form_.mask)});
    const auto mixed =
        b_.node("MatMul", {b_.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), all[1]});
    const auto rows =
        b_.reshape(b_.node("Transpose", {mixed}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}}),
                   {0, 1, kWidth});
    add(b_.node("MatMul", {rows, weight("out", {kWidth, kWidth})}));
  }

  OnnxBuilder b_{17};
  RecurrentForm form_;
  std::string x_;
  std::vector<std::string> presents_;
  int salt_ = 0;
};

}  // namespace

OnnxBuilder tiny_recurrent(const RecurrentForm& form) {
  return RecurrentWriter().write(form);
}

}  // namespace llmc::testing
