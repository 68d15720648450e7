#include "tests/support_onnx/rope_form.h"

namespace llmc::testing {

namespace {

constexpr std::int64_t kRotated = 4;

std::string concat(OnnxBuilder& b, const std::vector<std::string>& parts, std::int64_t axis) {
  return b.node("Concat", parts, {{"axis", axis}});
}

std::string row(OnnxBuilder& b, const std::string& x, std::int64_t index) {
  return b.node("Gather", {x, b.integer(index)});
}

/// Takes each half of the elements of x [3, 1, seq, 4] from another row: [1, seq, 4].
std::string in_chunks(OnnxBuilder& b, const std::string& x) {
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < kRotated; ++i) {
    const auto part = b.node(
        "Slice", {x, b.integers({i}), b.integers({i + 1}), b.integers({3}), b.integers({1})});
    parts.push_back(row(b, part, i % 2 == 0 ? 1 : 2));
  }
  return concat(b, parts, 2);
}

/// angle[0, ..., 1::2] = angle[2, ..., 1::2] of angles [3, 1, seq, 2], as PyTorch's dynamo exporter
/// writes it. Returns all rows.
std::string stored_in_first_row(OnnxBuilder& b, const std::string& angle) {
  const auto turned = [&](const std::string& x) {
    return b.node("Transpose", {x}, {{"perm", std::vector<std::int64_t>{2, 1, 0}}});
  };
  const auto part = b.node("Slice", {row(b, angle, 2), b.integers({1}), b.integers({2}),
                                     b.integers({2}), b.integers({2})});
  const auto to = b.unsqueeze(b.integers({1}), {1});
  const auto stored = turned(b.node("ScatterND", {turned(row(b, angle, 0)), to, turned(part)}));
  const auto updates = b.unsqueeze(stored, {0});
  const auto indices = b.node("Expand", {b.integer(0), b.node("Shape", {updates})});
  return b.node("ScatterElements", {angle, indices, updates}, {{"axis", std::int64_t{0}}});
}

}  // namespace

bool has_sections(RopeForm form) {
  return form == RopeForm::kSections || form == RopeForm::kStoredSections;
}

RopeAngles rope_angles(OnnxBuilder& b, RopeForm form, const std::string& positions,
                       int float_type) {
  const std::vector<float> frequencies{1, 0.0625f};
  const auto cast = [&](const std::string& x) {
    return b.node("Cast", {x}, {{"to", std::int64_t{float_type}}});
  };
  const auto transpose = [&](const std::string& x, const std::vector<std::int64_t>& perm) {
    return b.node("Transpose", {x}, {{"perm", perm}});
  };
  if (has_sections(form)) {
    const auto f = b.node("Expand", {b.floats("inv_freq", {1, 1, kRotated / 2, 1}, frequencies),
                                     b.integers({3, 1, kRotated / 2, 1})});
    auto angle = transpose(b.node("MatMul", {f, cast(b.unsqueeze(positions, {2}))}), {0, 1, 3, 2});
    if (form == RopeForm::kStoredSections) angle = row(b, stored_in_first_row(b, angle), 0);
    angle = concat(b, {angle, angle}, form == RopeForm::kSections ? 3 : 2);
    const auto factor = [&](const std::string& function) {
      const auto all = b.node(function, {angle});
      return b.unsqueeze(form == RopeForm::kSections ? in_chunks(b, all) : all, {1});
    };
    return {factor("Cos"), factor("Sin")};
  }
  const auto f = b.floats("inv_freq", {1, kRotated / 2, 1}, frequencies);
  const auto p = cast(b.unsqueeze(positions, {1}));
  auto angle = transpose(b.node("MatMul", {f, p}), {0, 2, 1});  // [1, seq, 2]
  if (form == RopeForm::kInterleaved) {
    const auto twice = concat(b, {b.unsqueeze(angle, {3}), b.unsqueeze(angle, {3})}, 3);
    angle = b.reshape(twice, {1, -1, kRotated});
  } else {
    angle = concat(b, {angle, angle}, 2);
  }
  return {b.unsqueeze(b.node("Cos", {angle}), {1}), b.unsqueeze(b.node("Sin", {angle}), {1})};
}

}  // namespace llmc::testing
