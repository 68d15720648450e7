// `llmc inspect` gives the exit code and the errors of `compile`, which `plan` has, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/tiny_vision.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Runs both commands on a model and compares exit codes and errors. Returns the output of inspect.
ProgramRun inspect_like_plan(const fs::path& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"inspect", model.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramRun inspected = llmc(arguments);
  arguments[0] = "plan";
  arguments.emplace_back("-q");
  const ProgramRun planned = llmc(arguments);
  EXPECT_EQ(inspected.code, planned.code) << model << "\n" << inspected.err << planned.err;
  // Warnings and notes are plan's own.
  if (planned.code != 0) {
    const auto first = planned.err.substr(0, planned.err.find('\n'));
    EXPECT_THAT(inspected.err, HasSubstr(first)) << model;
  }
  for (const char* unknown : {" layers 0", "heads 0", "head dim 0", "hidden 0", " 0 rope"})
    EXPECT_THAT(inspected.out, Not(HasSubstr(unknown))) << model;
  return inspected;
}

/// y = op(x), with x of [n, 4].
fs::path one_node(const testing::TemporaryFolder& folder, const char* op) {
  testing::OnnxBuilder b(17);
  b.float_input("x", {"n", std::int64_t{4}});
  b.node(op, {"x"}, {}, "y");
  b.float_output("y", {"n", std::int64_t{4}});
  const fs::path path = folder.path() / (std::string(op) + ".onnx");
  b.save(path);
  return path;
}

TEST(InspectCommand, HasTheExitCodeOfCompile) {
  const testing::TemporaryFolder folder;
  const fs::path relu = one_node(folder, "Relu");
  const ProgramRun open = inspect_like_plan(relu);
  EXPECT_NE(open.code, 0);
  EXPECT_THAT(open.err, HasSubstr("--dim"));
  EXPECT_THAT(open.out, HasSubstr("not a decoder"));
  EXPECT_EQ(inspect_like_plan(relu, {"--dim", "n=3"}).code, 0);
  EXPECT_EQ(inspect_like_plan(relu, {"--dim", "m=3"}).code, 2);
  EXPECT_EQ(inspect_like_plan(one_node(folder, "Mystery")).code, 4);

  const ModelFolder model;
  const ProgramRun whole = inspect_like_plan(model.path());
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("layers 2, heads 4"), HasSubstr("fused: 2 attention")));

  auto decoder = testing::tiny_decoder({.name = "decoder"});
  decoder.save(folder.path() / "decoder.onnx");
  EXPECT_EQ(inspect_like_plan(folder.path() / "decoder.onnx").code, 0);
  // A softmax over the tokens cannot be computed token by token. What reads it is no cause.
  for (auto& node : *decoder.graph().mutable_node()) {
    if (node.op_type() != "Sigmoid") continue;
    node.set_op_type("Softmax");
    auto& axis = *node.add_attribute();
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    axis.set_i(-2);
  }
  decoder.save(folder.path() / "mixes.onnx");
  const ProgramRun mixes = inspect_like_plan(folder.path() / "mixes.onnx");
  EXPECT_EQ(mixes.code, 4) << mixes.err;
  EXPECT_THAT(mixes.out, HasSubstr("recognised"));
  EXPECT_THAT(mixes.err, HasSubstr("it mixes the values of different tokens"));
  EXPECT_THAT(mixes.err, Not(HasSubstr("is not a row of floats")));
  const ProgramRun json = llmc({"inspect", (folder.path() / "mixes.onnx").string(), "--json"});
  const auto facts = nlohmann::json::parse(json.out);
  EXPECT_EQ(json.code, 4);
  EXPECT_EQ(facts["compiles"], false);
  EXPECT_FALSE(facts["unsupported"].empty());
}

TEST(InspectCommand, ListsTheFilesOfAnEncoderThatHasNoCache) {
  const testing::TemporaryFolder folder;
  testing::write_tiny_vision(folder.path());
  const fs::path encoder = folder.path() / "vision" / "vision_encoder.onnx";
  const std::vector<std::string> names{"config.json", "generation_config.json",
                                       "preprocessor_config.json", "tokenizer.json"};
  for (const std::string& name : names) testing::write_bytes(encoder.parent_path() / name, "{}");
  const ProgramRun text = inspect_like_plan(encoder, {"--dim", "batch_size=1"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr(" attention"), Not(HasSubstr("  cache ["))));
  const ProgramRun ran = llmc({"inspect", encoder.string(), "--dim", "batch_size=1", "--json"});
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_TRUE(json["architecture"]["cache_layout"].is_null());
  std::map<std::string, std::string> roles;
  for (const auto& file : json["files"]) roles[file["name"]] = file["role"];
  for (const std::string& name : names)
    EXPECT_EQ(roles[name], name == "tokenizer.json" ? "tokenizer" : "config") << name;
}

TEST(InspectCommand, AgreesWithPlanOnSharedSamples) {
  const fs::path samples = shared_folder() / "onnx-samples";
  if (!fs::exists(samples)) GTEST_SKIP() << samples << " is not there";
  for (const auto& sample : fs::directory_iterator(samples)) {
    if (!sample.is_directory()) continue;
    if (fs::exists(sample.path() / "block_0.onnx") || fs::exists(sample.path() / "model.onnx")) {
      inspect_like_plan(sample.path());
      continue;
    }
    for (const auto& file : fs::directory_iterator(sample.path()))
      if (file.path().extension() == ".onnx") inspect_like_plan(file.path());
  }
}

}  // namespace
}  // namespace llmc::tests
#endif
