// Every command parses the graph of each ONNX file once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/driver/source.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/tiny_decoder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Command {
  std::vector<std::string> arguments;  // after the model
  int code = 0;
};

/// Runs each command on `model`; `more`: options that all of them take.
void expect_one_import(const fs::path& model, int files, const std::vector<Command>& commands,
                       const std::vector<std::string>& more = {}) {
  const std::string expected =
      "note: parsed once: " + std::to_string(files) + " ONNX file" + (files == 1 ? "\n" : "s\n");
  for (const Command& command : commands) {
    std::vector<std::string> arguments = command.arguments;
    arguments.insert(arguments.begin() + 1, model.string());
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.emplace_back("-v");
    const testing::TemporaryFolder cache;
    const ProgramRun ran = llmc(arguments, {"XDG_CACHE_HOME=" + cache.path().string()});
    EXPECT_EQ(ran.code, command.code) << arguments[0] << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(expected)) << arguments[0];
  }
}

std::vector<Command> compile_inspect_plan(const fs::path& folder) {
  return {{{"compile", "--target=generic", "--cflag=-O0", "-o", (folder / "bundle").string()}},
          {{"inspect"}},
          {{"plan", "--target=generic"}}};
}

std::vector<Command> all_commands(const fs::path& folder) {
  auto commands = compile_inspect_plan(folder);
  for (const std::vector<std::string>& run :
       {std::vector<std::string>{"bench", "-n1", "-p0", "-r1"},
        {"run", "--ids=1,5,9", "-n2", "--temp=0"},
        {"run", "--ids=1,5,9", "-n2", "--temp=0", "--no-cache"},
        {"verify", "--ids=1,5,9", "--steps=2", "--no-require-golden"}}) {
    commands.push_back({run});
    commands.back().arguments.insert(commands.back().arguments.end(),
                                     {"--target=generic", "--cflag=-O0"});
  }
  return commands;
}

TEST(ImportOnce, OfASplitModel) {
  const testing::TemporaryFolder folder;
  const ModelFolder model;
  expect_one_import(model.path(), 3, all_commands(folder.path()));
}

TEST(ImportOnce, OfADecoderInOneFile) {
  const testing::TemporaryFolder folder;
  testing::tiny_decoder({.name = "decoder"}).save(folder.path() / "decoder.onnx");
  expect_one_import(folder.path() / "decoder.onnx", 1, all_commands(folder.path()));
}

TEST(ImportOnce, OfAPlainGraph) {
  const testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {"n", std::int64_t{4}});
  b.node("Relu", {"x"}, {}, "y");
  b.float_output("y", {"n", std::int64_t{4}});
  b.save(folder.path() / "relu.onnx");
  auto commands = compile_inspect_plan(folder.path());
  commands.push_back({{"bench", "-r1", "--target=generic"}});
  commands.push_back({{"verify", "--target=generic"}});
  expect_one_import(folder.path() / "relu.onnx", 1, commands, {"--dim=n=3"});
  expect_one_import(folder.path() / "relu.onnx", 1,
                    {{{"run", "--prompt=a"}, 4}, {{"run", "--ids=1"}, 4}, {{"verify"}, 2}});
}

/// Each import reports the same warning.
TEST(ImportOnce, OfAPlainGraphWithAWeightFormat) {
  const testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{3}, std::int64_t{4}});
  b.node("Relu", {"x"}, {}, "y");
  b.float_output("y", {std::int64_t{3}, std::int64_t{5}});  // 4 in truth
  b.save(folder.path() / "relu.onnx");
  exec::NativeOptions options;
  options.compile = options_for(folder.path() / "relu.onnx", "generic", ir::WeightFormat::kQ8);
  options.compile.quant_given = true;
  int imports = 0;
  options.compile.import.on_warning = [&](const Diagnostic&) { ++imports; };
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  EXPECT_FALSE(exec::load_native(options).ok()) << "it is no decoder";
  before == nullptr ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  EXPECT_EQ(imports, 1);
}

/// An import has constants of its own.
TEST(ImportOnce, OfAPlainGraphWithDims) {
  const testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {"n", std::int64_t{2}});
  b.node("Add", {"x", b.floats("w", {2}, std::vector<float>{1, 2})}, {}, "y");
  b.float_output("y", {"n", std::int64_t{2}});
  b.save(folder.path() / "add.onnx");
  driver::CompileOptions options = quick(folder.path() / "add.onnx", folder.path() / "bundle");
  options.dims = {{"n", plan::DimRange(3)}};
  const auto constant = [](const importer::ImportedModel& model) {
    for (const ir::Node& node : model.graph().nodes())
      if (const auto* found = std::get_if<ir::ConstantOp>(&node.op)) return found->data;
    return ir::ConstantPtr();
  };
  const auto source = driver::read_source(options);
  ASSERT_TRUE(source.ok());
  ASSERT_TRUE(source->is_function);
  const auto bound = options.reader.bind(options.model, driver::import_options(options));
  ASSERT_TRUE(bound.ok());
  ASSERT_NE(constant(*bound), nullptr);
  EXPECT_EQ(constant(source->model), constant(*bound));
}

TEST(ImportOnce, OfADecoderAsAFunction) {
  const testing::TemporaryFolder folder;
  testing::tiny_decoder({.name = "decoder"}).save(folder.path() / "decoder.onnx");
  auto commands = compile_inspect_plan(folder.path());
  commands.push_back({{"bench", "-r1", "--target=generic"}});
  std::vector<std::string> sizes{"--dim=batch=1", "--dim=seq=2", "--dim=past=3"};
  expect_one_import(folder.path() / "decoder.onnx", 1, commands, sizes);
  sizes.emplace_back("--function");
  expect_one_import(folder.path() / "decoder.onnx", 1, commands, sizes);
}

}  // namespace
}  // namespace llmc::tests
#endif
