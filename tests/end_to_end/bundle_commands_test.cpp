// Commands on bundles, and what `llmc verify` requires.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "compiler/driver/golden.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/onnx_builder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Deletes the tokenizer of the bundle and its entry in the plan.
void expect_advice_without_tokenizer(const fs::path& path) {
  fs::remove(path / "fable.tokenizer.bin");
  for (const char* const command : {"run", "tokenize"}) {
    std::vector<std::string> arguments{command, path.string()};
    if (command == std::string("run")) arguments.emplace_back("-p");
    arguments.emplace_back("Once");
    const ProgramRun missing = llmc(arguments);
    EXPECT_EQ(missing.code, 3) << missing.err;
    EXPECT_THAT(missing.err, AllOf(HasSubstr("damaged bundle: fable.tokenizer.bin is missing"),
                                   HasSubstr("\nhint: compile the model again")));
  }
  // As a bundle is when its model had none.
  const auto text = read_file(path / "fable.plan.json");
  ASSERT_TRUE(text.ok());
  auto plan = nlohmann::ordered_json::parse(*text);
  plan.erase("tokenizer");
  ASSERT_TRUE(write_file(path / "fable.plan.json", plan.dump()).ok());
  const ProgramRun none = llmc({"run", path.string(), "-p", "Once"});
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_THAT(none.err, AllOf(HasSubstr("the bundle has no tokenizer: the model's folder had none"),
                              HasSubstr("\nhint: add tokenizer.json"), HasSubstr("--ids")));
}

/// Checks that all sizes of the plan end in the same column, if a format has a long name.
void expect_columns_of_long_formats(const fs::path& path) {
  const fs::path file = path / "fable.plan.json";
  const auto text = read_file(file);
  ASSERT_TRUE(text.ok());
  auto plan = nlohmann::ordered_json::parse(*text);
  plan["weights"][0]["format"] = "table int8/256";
  plan["weights"][0]["bytes"] = 123456789;
  ASSERT_TRUE(write_file(file, plan.dump()).ok());
  const ProgramRun shown = llmc({"plan", path.string()});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("table int8/256"));
  std::istringstream lines(shown.out);
  std::set<std::size_t> columns;
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t at = line.find(" bytes "); at != line.npos) columns.insert(at);
  EXPECT_EQ(columns.size(), 1u) << shown.out;
  ASSERT_TRUE(write_file(file, *text).ok());
}

TEST(BundleCommands, AreLinkedOnce) {
  const testing::TemporaryFolder folder;
  const std::string bundle = (folder.path() / "fable").string();
  const std::string cache = "XDG_CACHE_HOME=" + (folder.path() / "cache").string();
  const ProgramRun made = llmc({"compile", tinyfable().string(), "-o", bundle, "--target",
                                "generic", "--name", "fable", "--cflag=-O0", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string no_linker = "LLMC_CC=/nowhere/clang++";
  const auto run = [&](const std::vector<std::string>& environment, const char* more = "-q") {
    return llmc({"run", bundle, "-p", "Once", "-n", "3", "--temp", "0", "-q", more}, environment);
  };
  EXPECT_EQ(run({cache, no_linker}).code, 6);
  const ProgramRun first = run({cache});
  ASSERT_EQ(first.code, 0) << first.err;
  const ProgramRun again = run({cache, no_linker});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(run({cache, no_linker}, "--no-cache").code, 6);
  // A damaged library is linked anew; where there is no cache, each run links its own.
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "cache"))
    if (entry.path().filename() == "model.so") fs::resize_file(entry.path(), 100);
  EXPECT_EQ(run({cache, no_linker}).code, 6);
  EXPECT_EQ(run({cache}).out, first.out);
  ASSERT_TRUE(write_file(folder.path() / "file", "").ok());
  EXPECT_EQ(run({"XDG_CACHE_HOME=" + (folder.path() / "file").string()}).out, first.out);
  // Another archive of the same name is not the one that was linked.
  fs::remove_all(bundle);
  ASSERT_EQ(llmc({"compile", tinyfable().string(), "-o", bundle, "--target", "generic", "--name",
                  "fable", "--cflag=-O0", "--quant", "q8", "-q"})
                .code,
            0);
  EXPECT_EQ(run({cache, no_linker}).code, 6);
}

TEST(BundleCommands, AreNotKeptIfTheyAreReplacedWhileTheyAreLinked) {
  const testing::TemporaryFolder folder;
  const auto compile = [&](const std::string& name, const std::string& quant) {
    const fs::path bundle = folder.path() / name;
    const ProgramRun made =
        llmc({"compile", tinyfable().string(), "-o", bundle.string(), "--target", "generic",
              "--name", "fable", "--cflag=-O0", "--quant", quant, "-q"});
    EXPECT_EQ(made.code, 0) << made.err;
    return bundle / "libfable.a";
  };
  const fs::path archive = compile("fable", "q4m"), other = compile("other", "q8");
  const fs::path original = folder.path() / "original.a";
  fs::copy_file(archive, original);
  const std::string cc = write_script(folder.path() / "clang++",
                                      "case \"$*\" in *-shared*) cp '" + other.string() + "' '" +
                                          archive.string() + "';; esac\nexec clang++-19 \"$@\"");
  const auto run = [&](const std::string& compiler) {
    return llmc(
        {"run", archive.parent_path().string(), "-p", "Once", "-n", "3", "--temp", "0", "-q"},
        {"XDG_CACHE_HOME=" + (folder.path() / "cache").string(), "LLMC_CC=" + compiler});
  };
  const ProgramRun replaced = run(cc);
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(read_file(archive)->size(), read_file(other)->size());
  fs::copy_file(original, archive, fs::copy_options::overwrite_existing);
  EXPECT_EQ(run("/nowhere/clang++").code, 6);
}

TEST(BundleCommands, PlanInspectAndVerifyTakeABundle) {
  const testing::TemporaryFolder folder;
  const std::string bundle = (folder.path() / "fable").string();
  const ProgramRun made = llmc({"compile", tinyfable().string(), "-o", bundle, "--target",
                                "generic", "--name", "fable", "--cflag=-O0", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  const ProgramRun plan = llmc({"plan", bundle});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("fable, target generic, level 3"));
  EXPECT_THAT(plan.out, HasSubstr("layers 4"));
  EXPECT_THAT(plan.out, HasSubstr("exact\n"));
  // The same layout as before compilation, except for the size of the code.
  const ProgramRun before = llmc({"plan", tinyfable().string(), "--target=generic", "-q"});
  std::istringstream lines(before.out);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("code") && line.find(" bytes ") != line.npos)
      EXPECT_THAT(plan.out, HasSubstr(line + "\n"));
  EXPECT_EQ(llmc({"plan", bundle, "--max-ram", "1K"}).code, 5);
  const ProgramRun inspect = llmc({"inspect", bundle});
  EXPECT_EQ(inspect.code, 0);
  EXPECT_THAT(inspect.out, AllOf(HasSubstr(plan.out), HasSubstr("libfable.a")));
  const ProgramRun json = llmc({"plan", bundle, "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out),
            nlohmann::json::parse(*read_file(fs::path(bundle) / "fable.plan.json")));
  expect_columns_of_long_formats(bundle);
  auto golden = driver::read_golden(driver::default_golden_file(tinyfable()));
  ASSERT_TRUE(golden.ok());
  const ProgramRun verified = llmc({"verify", bundle, "--require-golden"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out,
              AllOf(HasSubstr("golden q4m,kv=f16: equal: " + golden->hashes["q4m,kv=f16"]),
                    HasSubstr("golden q4m,kv=f16/200+4: equal: "),
                    HasSubstr(" chunks (forward passes of at most 32 tokens) and 4 steps"),
                    HasSubstr("the same bits in chunks of")));
  const ProgramRun with_model =
      llmc({"verify", bundle, "--model", tinyfable().string(), "--short"});
  EXPECT_EQ(with_model.code, 0) << with_model.err;
  EXPECT_THAT(with_model.out, HasSubstr("reference: ok"));
  const ProgramRun with_bundle = llmc({"verify", bundle, "--model", bundle});
  EXPECT_EQ(with_bundle.code, 2) << with_bundle.err;
  EXPECT_THAT(with_bundle.err, HasSubstr("--model " + bundle + " is a compiled bundle"));
  expect_advice_without_tokenizer(bundle);
}

TEST(VerifyCommand, APlainGraphIsComparedWithTheInterpreter) {
  testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {"n", std::int64_t{64}});
  std::vector<float> weights(64 * 96);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = 0.1F * static_cast<float>(i * 37 % 19) - 0.9F;
  b.node("Softmax", {b.node("MatMul", {"x", b.floats("w", {64, 96}, weights)})}, {}, "y");
  b.float_output("y", {"n", std::int64_t{96}});
  const std::string model = (folder.path() / "layer.onnx").string();
  b.save(model);
  const auto verify = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"verify", model, "--dim", "n=70", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments);
  };
  std::string hash;
  for (const char* const target : {"generic", "avx2"}) {
    if (!target::runs_here(**target::find(target))) continue;
    const ProgramRun exact = verify({std::string("--target=") + target, "-t", "3"});
    ASSERT_EQ(exact.code, 0) << exact.err;
    const auto json = nlohmann::json::parse(exact.out);
    EXPECT_LT(json["outputs"][0]["relative_error"], 1e-5);
    EXPECT_EQ(json["threads"], 3);
    if (!hash.empty()) EXPECT_EQ(json["hash"], hash);
    hash = json["hash"];
  }
  const ProgramRun rounded = verify({"--target=generic", "--quant", "q4", "--short"});
  ASSERT_EQ(rounded.code, 0) << rounded.err;
  EXPECT_THAT(rounded.err, HasSubstr("--short has no effect on a function"));
  const auto json = nlohmann::json::parse(rounded.out);
  EXPECT_GT(json["outputs"][0]["relative_error"], 1e-4);
  EXPECT_NE(json["hash"], hash);
  EXPECT_EQ(verify({"--ids", "1,2"}).code, 2);
  const ProgramRun inspected = llmc({"inspect", model, "--dim", "n=70", "--json"});
  EXPECT_EQ(nlohmann::json::parse(inspected.out)["loops"]["operators"]["softmax"], 1);
}

/// Weights that 4 bits cannot hold: those that count are lost beside larger ones, which are
/// multiplied by 0.
TEST(VerifyCommand, APlainGraphThatRoundingSpoilsIsAMismatch) {
  testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.input("ids", onnx::TensorProto::INT64, {std::int64_t{2}, std::int64_t{96}});
  std::vector<float> weights(96 * 8);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = i / 8 % 3 == 1 ? 1000.0F : 0.01F * static_cast<float>(i % 7);
  const std::string x = b.node("Cast", {"ids"}, {{"to", std::int64_t{1}}});
  b.node("MatMul", {x, b.floats("w", {96, 8}, weights)}, {}, "y");
  b.float_output("y", {std::int64_t{2}, std::int64_t{8}});
  const std::string model = (folder.path() / "layer.onnx").string();
  b.save(model);
  EXPECT_EQ(llmc({"verify", model, "--target=generic"}).code, 0);
  const ProgramRun spoiled = llmc({"verify", model, "--target=generic", "--quant=q4"});
  EXPECT_EQ(spoiled.code, 7);
  EXPECT_THAT(spoiled.out, HasSubstr("MISMATCH"));
  EXPECT_THAT(spoiled.err,
              HasSubstr("outputs differ from the reference by more than the limit for "
                        "rounding to the format\nhint: --quant q8 or f16 rounds less"));
}

TEST(VerifyCommand, RowsThatAreTakenForZerosAreNamed) {
  testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{2}, std::int64_t{96}});
  const std::string tiny = b.node("Mul", {"x", b.floats("scale", {1}, std::vector<float>{1e-30F})});
  b.node("MatMul", {tiny, b.floats("w", {96, 8}, std::vector<float>(96 * 8, 0.5F))}, {}, "y");
  b.float_output("y", {std::int64_t{2}, std::int64_t{8}});
  const std::string model = (folder.path() / "layer.onnx").string();
  b.save(model);
  EXPECT_EQ(llmc({"verify", model, "--target=generic"}).code, 0);
  const ProgramRun zeros = llmc({"verify", model, "--target=generic", "--quant=q8"});
  EXPECT_EQ(zeros.code, 7);
  EXPECT_THAT(zeros.err, HasSubstr("hint: an output is all zeros: quantized layers take rows "
                                   "without elements of 2^-96 or more for zeros"));
}

TEST(VerifyCommand, AMissingHashFailsWhereOneIsRequired) {
  testing::TemporaryFolder folder;
  const ModelFolder model({.layers = 1});
  const std::string golden = (folder.path() / "golden.json").string();
  const auto verify = [&](const std::vector<std::string>& more,
                          const std::vector<std::string>& environment = {"-u", "CI"}) {
    std::vector<std::string> arguments{"verify",      model.path().string(), "--target=generic",
                                       "--cflag=-O0", "--ctx=128",           "--no-reference"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments, environment);
  };
  EXPECT_EQ(verify({}).code, 0);
  const ProgramRun required = verify({"--require-golden"});
  EXPECT_EQ(required.code, 7);
  EXPECT_THAT(required.out, HasSubstr("golden q4m,kv=f16: MISSING: hash "));
  EXPECT_THAT(required.err, AllOf(HasSubstr("has no hash for q4m,kv=f16"), HasSubstr("--update")));
  EXPECT_EQ(verify({}, {"CI=true"}).code, 7);
  EXPECT_EQ(verify({"--no-require-golden"}, {"CI=true"}).code, 0);
  EXPECT_EQ(verify({"--golden", golden, "--update"}).code, 0);
  EXPECT_EQ(verify({"--golden", golden}).code, 0);
  EXPECT_EQ(verify({"--golden", golden, "--quant=q8"}).code, 7);
  auto text = *read_file(golden);
  const std::string version = "\"numerics\": \"";
  text.insert(text.find(version) + version.size(), "old");
  text[text.find("/124+4\": \"") + 10] = 'x';
  ASSERT_TRUE(write_file(golden, text).ok());
  const ProgramRun other = verify({"--golden", golden});
  EXPECT_EQ(other.code, 7);
  EXPECT_THAT(other.err, HasSubstr("the stored hash has numerics version old"));
}

}  // namespace
}  // namespace llmc::tests
#endif
