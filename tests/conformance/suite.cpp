#include "tests/conformance/suite.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/ir/verify.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/subprocess.h"

namespace llmc::conformance {
namespace fs = std::filesystem;
namespace {

/// The operators that llmc's inputs use (docs/inputs.md), and those that belong to the same
/// families.
constexpr const char* kListed =
    "Abs Add And ArgMax ArgMin Attention Cast CastLike Ceil Clip Concat Constant ConstantOfShape "
    "Cos "
    "CumSum DequantizeLinear Div DynamicQuantizeLinear Einsum Equal Erf Exp Expand Flatten Floor "
    "Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual Identity If IsInf IsNaN "
    "LayerNormalization Less LessOrEqual Log MatMul MatMulInteger Max Min Mod Mul Neg Not OneHot "
    "Or "
    "Pad Pow QLinearMatMul QuantizeLinear RMSNormalization Range Reciprocal ReduceL1 ReduceL2 "
    "ReduceLogSum "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu "
    "Reshape "
    "RotaryEmbedding Round ScatterElements ScatterND Shape Sigmoid SimplifiedLayerNormalization "
    "Sin "
    "Size Slice Softmax Split Sqrt Squeeze Sub Sum Swish Tanh TensorScatter Tile TopK Transpose "
    "Trilu "
    "Unsqueeze Where Xor "
    "AveragePool BatchNormalization Conv ConvTranspose GlobalAveragePool GlobalMaxPool "
    "GroupNormalization InstanceNormalization LpPool MaxPool Resize Upsample "
    "Celu Dropout Elu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mean Mish PRelu Selu "
    "Shrink "
    "Sign Softplus Softsign ThresholdedRelu Sinh Cosh Tan Asin Acos Atan Asinh Acosh Atanh "
    "EyeLike DepthToSpace SpaceToDepth";

std::string operator_name(const onnx::NodeProto& node) {
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  return standard ? node.op_type() : node.domain() + "." + node.op_type();
}

void collect_operators(const onnx::GraphProto& graph, std::set<std::string>& operators) {
  for (const auto& node : graph.node()) {
    operators.insert(operator_name(node));
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) collect_operators(attribute.g(), operators);
  }
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Of an expanded test: the listed operator whose name the test's name begins with (underscores
/// aside); otherwise the operator of the only node, or of the first.
std::string subject_of(const NodeTest& test, const onnx::ModelProto& model) {
  if (test.name.find("_expanded") == std::string::npos && model.graph().node_size() > 0)
    return operator_name(model.graph().node(0));
  std::string plain = lower(test.name.substr(5));
  std::erase(plain, '_');
  std::string best;
  for (const auto& name : listed_operators())
    if (plain.starts_with(lower(name)) && name.size() > best.size()) best = name;
  return best.empty() && model.graph().node_size() > 0 ? operator_name(model.graph().node(0))
                                                       : best;
}

Outcome failed(std::string why) {
  return {Verdict::kFailed, std::move(why)};
}

Outcome run_data_set(const NodeTest& test, const fs::path& folder) {
  auto bound = importer::import_with_data(test.folder / "model.onnx", folder);
  if (!bound.ok()) return stopped(bound.error());
  const auto verified = ir::verify(bound->model.graph());
  if (!verified.ok()) return failed(format_all(verified.error()));
  std::vector<reference::Tensor> inputs;
  for (const auto& input : bound->inputs) inputs.push_back(reference::to_tensor(*input));
  const auto outputs = reference::evaluate(bound->model.graph(), inputs);
  if (!outputs.ok()) return failed(format_all(outputs.error()));
  for (std::size_t i = 0; i < outputs->size(); ++i)
    if (const auto why = difference((*outputs)[i], *bound->outputs[i]); !why.empty())
      return failed("output " + std::to_string(i) + ": " + why);
  return {};
}

}  // namespace

std::string format_all(const Error& error) {
  std::string text;
  for (const auto& d : error.diagnostics()) text += (text.empty() ? "" : "; ") + d.message;
  return text;
}

Outcome stopped(const Error& error) {
  const bool refused =
      std::all_of(error.diagnostics().begin(), error.diagnostics().end(),
                  [](const Diagnostic& d) { return d.kind == ErrorKind::kUnsupported; });
  return {refused ? Verdict::kRefused : Verdict::kFailed, format_all(error)};
}

const std::set<std::string>& listed_operators() {
  static const std::set<std::string> names = [] {
    std::istringstream in(kListed);
    std::set<std::string> out;
    for (std::string name; in >> name;) out.insert(name);
    return out;
  }();
  return names;
}

std::optional<fs::path> find_data(std::string& why) {
  if (const char* given = std::getenv("LLMC_ONNX_TEST_DATA")) {
    if (fs::is_directory(given)) return fs::path(given);
    why = "LLMC_ONNX_TEST_DATA is no folder";
    return std::nullopt;
  }
  const fs::path folder = fs::path(LLMC_BINARY_DIR) / "onnx-tests";
  const auto fetched =
      run_command({std::string(LLMC_SOURCE_DIR) + "/tools/fetch_onnx_tests.sh", folder.string()});
  if (fetched.ok() && fetched->ok()) return folder / "data" / "node";
  why = "ONNX's test data are not at hand: " +
        (fetched.ok() ? fetched->standard_error : fetched.error().first().message);
  return std::nullopt;
}

std::string data_version(const fs::path& node_folder) {
  std::ifstream in(node_folder.parent_path().parent_path() / "version");
  std::string version;
  in >> version;
  return version;
}

namespace {

/// The expected codes of these tests wrap where the operator saturates, as onnxruntime does.
bool has_wrong_data(const std::string& name) {
  return name.starts_with("test_qlinearmatmul_") && name.find("_int8_") != std::string::npos;
}

}  // namespace

std::vector<NodeTest> select_tests(const fs::path& node_folder) {
  std::vector<NodeTest> tests;
  for (const auto& entry : fs::directory_iterator(node_folder)) {
    NodeTest test{entry.path().filename().string(), entry.path(), {}, {}};
    if (has_wrong_data(test.name)) continue;
    std::ifstream in(entry.path() / "model.onnx", std::ios::binary);
    onnx::ModelProto model;
    if (!in || !model.ParseFromIstream(&in)) continue;
    collect_operators(model.graph(), test.operators);
    const auto& listed = listed_operators();
    if (!std::includes(listed.begin(), listed.end(), test.operators.begin(), test.operators.end()))
      continue;
    test.subject = subject_of(test, model);
    tests.push_back(std::move(test));
  }
  std::sort(tests.begin(), tests.end(),
            [](const NodeTest& a, const NodeTest& b) { return a.name < b.name; });
  return tests;
}

Outcome run_in_interpreter(const NodeTest& test) {
  const auto folders = importer::data_set_folders(test.folder);
  if (folders.empty()) return failed("has no data set");
  for (const auto& folder : folders)
    if (auto outcome = run_data_set(test, folder); outcome.verdict != Verdict::kPassed)
      return outcome;
  return {};
}

std::string difference(const reference::Tensor& actual, const ir::Constant& expected) {
  const reference::Tensor wanted = reference::to_tensor(expected);
  if (actual.element != wanted.element || actual.dims != wanted.dims)
    return "is " + type_text(actual) + ", not " + type_text(wanted);
  constexpr double kRelative = 1e-3, kAbsolute = 1e-7;
  return reference::with_data(wanted.element, [&](auto data) -> std::string {
    for (std::size_t i = 0; i < (wanted.*data).size(); ++i) {
      const auto a = (actual.*data)[i], w = (wanted.*data)[i];
      bool same = a == w;
      if constexpr (!std::is_same_v<decltype(a), const std::int64_t>) {
        same = same || (std::isnan(a) && std::isnan(w)) ||
               std::fabs(static_cast<double>(a) - static_cast<double>(w)) <=
                   kAbsolute + kRelative * std::fabs(static_cast<double>(w));
      }
      if (!same)
        return "element " + std::to_string(i) + " is " + std::to_string(a) + ", not " +
               std::to_string(w);
    }
    return "";
  });
}

}  // namespace llmc::conformance
