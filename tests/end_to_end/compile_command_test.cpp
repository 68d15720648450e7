// `llmc compile` and `llmc plan`: for what, and where the bundles go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "compiler/target/target.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/onnx_builder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

/// llmc with `folder` as the current one.
ProgramRun llmc_in(const fs::path& folder, const std::vector<std::string>& arguments) {
  return llmc(arguments, {"-C", folder.string()});
}

std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    auto text = read_file(entry.path());
    EXPECT_TRUE(text.ok());
    files[entry.path().lexically_relative(folder)] = *std::move(text);
  }
  return files;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

/// A graph that becomes a function.
void write_relu(const fs::path& file) {
  fs::create_directories(file.parent_path());
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{2}});
  const auto sum = b.node("Add", {"x", b.floats("w", {2}, std::vector<float>{1, 2})});
  b.node("Relu", {sum}, {}, "y");
  b.float_output("y", {std::int64_t{2}});
  b.save(file);
}

TEST(CompileCommand, SeveralTargetsAreOneImportAndOneEncodingOfTheWeights) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const std::vector<std::string> common{model.path(), "--cflag=-O0",
                                        "--system-prompt-tokens=1,2,3"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compile");
    arguments.insert(arguments.begin() + 1, common.begin(), common.end());
    return llmc_in(out.path(), arguments);
  };
  const ProgramRun both = with({"--target=generic,aarch64,arm64", "-v"});
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, "tiny_model-generic\ntiny_model-arm64\n");
  for (const char* phase : {"s   import\n", "s   weights\n", "s   prompt\n"})
    EXPECT_EQ(count_of(both.err, phase), 1u) << phase << both.err;
  EXPECT_EQ(count_of(both.err, "s   compile\n"), 2u);
  EXPECT_THAT(both.err, HasSubstr("target      generic (given)\n"));
  EXPECT_THAT(both.err, HasSubstr("target      arm64 (given as aarch64)\n"));

  const ProgramRun one = with({"--target=arm64", "-o", "alone", "-q"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "alone\n");
  EXPECT_TRUE(files_below(out.path() / "alone") == files_below(out.path() / "tiny_model-arm64"))
      << "a bundle is the same, whatever it was made with";
  EXPECT_EQ(entries(out.path()), 3u);
}

TEST(CompileCommand, WithoutAFolderTheBundleIsBesideTheUser) {
  testing::TemporaryFolder out;
  write_relu(out.path() / "models/Tiny-Relu/onnx/model.onnx");
  const std::string portable(target::portable_here().name);
  const std::string name = "tiny_relu-" + portable;
  for (int i = 0; i < 2; ++i) {  // the second one replaces the first
    const ProgramRun made = llmc_in(out.path(), {"compile", "models/Tiny-Relu", "--cflag=-O0"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.out, name + "\n");
    EXPECT_THAT(made.err, StartsWith("target      " + portable + " (portable default"));
    EXPECT_TRUE(fs::exists(out.path() / name / "libtiny_relu.a"));
  }
  ASSERT_TRUE(write_file(out.path() / name / "notes.txt", std::string_view("mine")).ok());
  const ProgramRun refused = llmc_in(out.path(), {"compile", "models/Tiny-Relu", "--cflag=-O0"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("holds something else"));
  EXPECT_TRUE(fs::exists(out.path() / name / "notes.txt"));
  EXPECT_EQ(llmc_in(out.path(), {"compile", "models/Tiny-Relu", "-o", ""}).code, 2);
}

TEST(CompileCommand, ABundleInsideAnotherIsRefused) {
  const testing::TemporaryFolder out;
  write_relu(out.path() / "relu.onnx");
  const ProgramRun made = llmc_in(out.path(), {"compile", "relu.onnx", "-o", "bundle", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* const inside : {"bundle/inner", "bundle/llmc/inner/", "bundle/../bundle/a/b"}) {
    const ProgramRun ran = llmc_in(out.path(), {"compile", "relu.onnx", "-o", inside});
    EXPECT_EQ(ran.code, 3) << inside;
    EXPECT_THAT(ran.err, HasSubstr("the output folder is inside the bundle ")) << inside;
  }
  // The default is a folder in the current one.
  EXPECT_EQ(llmc_in(out.path() / "bundle", {"compile", "../relu.onnx"}).code, 3);
  EXPECT_EQ(llmc_in(out.path(), {"compile", "relu.onnx", "-o", "bundle", "-q"}).code, 0);
}

TEST(CompileCommand, FunctionsHaveSeveralTargetsToo) {
  testing::TemporaryFolder out;
  write_relu(out.path() / "relu.onnx");
  const ProgramRun made = llmc_in(out.path(), {"compile", "relu.onnx", "--target=generic,arm64",
                                               "--cflag=-O0", "-o", "made/here", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const Json list = Json::parse(made.out);
  ASSERT_EQ(list.size(), 2u);
  for (const Json& bundle : list) {
    const std::string target = bundle["target"];
    EXPECT_EQ(bundle["folder"], "made/here/relu-" + target);
    EXPECT_EQ(bundle["target_reason"], "given");
    EXPECT_EQ(bundle["plan"]["target"], target);
    EXPECT_TRUE(fs::exists(out.path() / "made/here" / ("relu-" + target) / "librelu.a"));
  }
  const ProgramRun verified = llmc_in(out.path(), {"verify", "made/here/relu-generic"});
  EXPECT_EQ(verified.code, 4);
  EXPECT_THAT(verified.err, HasSubstr("the bundle is a compiled function, not a decoder"));
  EXPECT_THAT(verified.err, HasSubstr("give the model that was compiled"));
  const ProgramRun inside = llmc_in(
      out.path(), {"compile", "relu.onnx", "--target=generic,arm64", "-o", "made/here/relu-arm64"});
  EXPECT_EQ(inside.code, 2);
  EXPECT_THAT(inside.err, HasSubstr("is a bundle"));
}

TEST(CompileCommand, OneThatFailsLeavesNoneOfThem) {
  testing::TemporaryFolder out, programs;
  write_relu(out.path() / "relu.onnx");
  const std::string compiler =
      write_script(programs.path() / "clang++",
                   "case \"$*\" in *--target=aarch64*) exit 1 ;; esac; exec clang++-19 \"$@\"");
  const ProgramRun made = llmc_in(out.path(), {"compile", "relu.onnx", "--target=generic,arm64",
                                               "--cc", compiler, "-o", "made/here"});
  EXPECT_EQ(made.code, 6) << made.err;
  EXPECT_EQ(entries(out.path()), 1u) << "not even the folder that was made for them";
  for (const char* target : {"generic,z80", "generic,", ",", "generic arm64"})
    EXPECT_EQ(llmc_in(out.path(), {"compile", "relu.onnx", "--target", target}).code, 2) << target;
  EXPECT_EQ(entries(out.path()), 1u);
}

TEST(CompileCommand, AnotherSystemThanTheTargetsIsRefused) {
  testing::TemporaryFolder out;
  write_relu(out.path() / "relu.onnx");
  for (const std::string model : {out.path() / "relu.onnx", tinyfable()}) {
    const ProgramRun made = llmc_in(out.path(), {"compile", model, "--target=arm64", "-o", "bundle",
                                                 "--cflag=--target=arm64-apple-macos13"});
    EXPECT_EQ(made.code, 2) << made.err;
    EXPECT_THAT(made.err, HasSubstr("libraries are ELF objects, which macOS"));
  }
  const ProgramRun text = llmc_in(out.path(), {"compile", "relu.onnx", "--cflag=-S"});
  EXPECT_EQ(text.code, 6);
  EXPECT_THAT(text.err, HasSubstr("needs ELF objects"));
  EXPECT_EQ(entries(out.path()), 1u);
}

TEST(PlanCommand, NamesTheTargetAndWhereItComesFrom) {
  const std::string model = tinyfable().string();
  const std::string portable(target::portable_here().name);
  EXPECT_THAT(llmc({"plan", model}).out,
              StartsWith("target      " + portable + " (portable default"));
  const ProgramRun several = llmc({"plan", model, "--target=lasx,haswell"});
  EXPECT_THAT(several.out, StartsWith("target      lasx (given)\n"));
  EXPECT_THAT(several.out, HasSubstr("\n\ntarget      avx2 (given as haswell)\n"));
  const Json list = Json::parse(llmc({"plan", model, "--target=lasx,avx2", "--json"}).out);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["target"], "avx2");
  EXPECT_EQ(list[1]["target_reason"], "given");
}

TEST(PlanCommand, NamesOfWeightsAreNotCut) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "sum.onnx").string();
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{2}, std::int64_t{2}});
  std::string value = "x", listed;
  for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
    const std::string name(40, letter);
    const std::vector<float> weights{static_cast<float>(letter), 1, 2, 3};
    value = b.node("Relu", {b.node("Add", {value, b.floats(name, {2, 2}, weights)})});
    if (letter != 'e') listed += name + ", ";
  }
  b.node("Neg", {value}, {}, "y");
  b.float_output("y", {std::int64_t{2}, std::int64_t{2}});
  b.save(model);
  const ProgramRun planned = llmc({"plan", model});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr(listed + "1 more\n"));
}

TEST(PlanCommand, PlansWeightsInAFile) {
  const std::string model = tinyfable().string();
  EXPECT_EQ(Json::parse(llmc({"plan", model, "--json"}).out)["options"]["weights"], "embed");
  const ProgramRun file = llmc({"plan", model, "--weights=file", "--json"});
  EXPECT_EQ(Json::parse(file.out)["options"]["weights"], "file");
  EXPECT_EQ(llmc({"plan", model, "--weights=flash"}).code, 2);
}

TEST(PlanCommand, TheTargetSaysHowManyTokensOfAPromptRunAtOnce) {
  const auto chunk = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", tinyfable().string(), "--json"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out, nullptr, false)["options"]["chunk"];
  };
  EXPECT_EQ(chunk({"--target=avx2"}), 128);
  EXPECT_EQ(chunk({"--target=arm64"}), 32);
  EXPECT_EQ(chunk({"--target=avx2", "--chunk=32"}), 32);
  // A pass may also run one token of each sequence.
  EXPECT_EQ(chunk({"--ctx=16", "--batch=32", "--sequences=32", "--chunk=32"}), 32);
  // No prompt is longer than the context, which is the trained one by default.
  const ProgramRun trained = llmc({"plan", tinyfable().string(), "--chunk=512"});
  EXPECT_EQ(trained.code, 0);
  EXPECT_THAT(trained.err, HasSubstr("--chunk 512 takes memory that no prompt uses"));
  EXPECT_THAT(trained.err, HasSubstr("hint: --chunk 384"));
}

TEST(PlanCommand, LeavesOutMemoryThatAFunctionDoesNotUse) {
  const testing::TemporaryFolder folder;
  write_relu(folder.path() / "relu.onnx");
  const ProgramRun ran = llmc({"plan", (folder.path() / "relu.onnx").string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("all memory of a call on up to 8 threads"));
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr("of values")));
}

TEST(PlanCommand, ErrorsNameTheFolderOfAFile) {
  testing::TemporaryFolder folder;
  fs::copy(tinyfable(), folder.path() / "good");
  fs::copy(tinyfable(), folder.path() / "bad");
  fs::create_directory(folder.path() / "here");
  const auto error_of = [&](std::vector<std::string> arguments) {
    const ProgramRun ran = llmc_in(folder.path() / "here", arguments);
    EXPECT_EQ(ran.code, 3);
    const std::size_t at = ran.err.find("llmc: error: ");
    return at == ran.err.npos ? ran.err : ran.err.substr(at + 13);
  };
  ASSERT_TRUE(write_file(folder.path() / "bad/block_1.onnx", std::string_view("hello")).ok());
  for (const char* command : {"plan", "compile", "inspect"})
    EXPECT_THAT(error_of({command, "../bad"}), StartsWith("../bad/block_1.onnx: not a valid"));
  EXPECT_THAT(error_of({"plan", "../bad/block_1.onnx"}), StartsWith("../bad/block_1.onnx: not a"));
  const ProgramRun part =
      llmc_in(folder.path() / "here", {"run", "../good/block_1.onnx", "-p", "a"});
  EXPECT_THAT(part.err, HasSubstr("error: ../good/block_1.onnx: the file is one part of a split"));
  EXPECT_THAT(error_of({"identity", "../bad", "../good"}),
              StartsWith("../bad/block_1.onnx: not a valid"));
  // A file of the user, with the name of one of the model's.
  ASSERT_TRUE(write_file(folder.path() / "here/tokenizer.txt", std::string_view("Once")).ok());
  EXPECT_THAT(error_of({"plan", "../good", "--calibrate", "tokenizer.txt"}),
              StartsWith("tokenizer.txt: the calibration's text"));
  fs::remove(folder.path() / "bad/block_1.onnx");
  EXPECT_THAT(error_of({"plan", "../bad"}), StartsWith("../bad/block_1.onnx: the file is missing"));
  EXPECT_THAT(error_of({"plan", "."}), StartsWith(".: the folder has neither"));
}

TEST(PlanCommand, NotesAContextThatTheModelDoesNotName) {
  testing::TemporaryFolder folder;
  const fs::path model = folder.path() / "m";
  fs::copy(tinyfable(), model);
  const auto noted = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", model.string()});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.err.find("does not say which context it was trained for") != ran.err.npos;
  };
  EXPECT_FALSE(noted({}));
  fs::remove(model / "llm_config.json");
  EXPECT_TRUE(noted({}));
  EXPECT_FALSE(noted({"--ctx=512"}));
}

TEST(PlanCommand, NotesWhichOfSeveralModelsIsTaken) {
  testing::TemporaryFolder out;
  for (const char* file : {"model.onnx", "model_fp16.onnx"})
    write_relu(out.path() / "relu/onnx" / file);
  const ProgramRun planned = llmc({"plan", (out.path() / "relu").string()});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("llmc: note: onnx/model.onnx is used"));
  EXPECT_EQ(llmc({"plan", (out.path() / "relu").string(), "-q"}).err, "");
}

TEST(ModelFileNote, EveryCommandThatReadsAModelPrintsItOnce) {
  testing::TemporaryFolder out;
  const std::string model = (out.path() / "relu").string();
  for (const char* file : {"model.onnx", "model_fp16.onnx"})
    write_relu(fs::path(model) / "onnx" / file);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"plan", model},
           {"inspect", model},
           {"compile", model, "-o", (out.path() / "made").string()},
           {"bench", model},
           {"verify", model},
           {"ppl", model, "--ids=1,2,3"},
           {"compare", model, "--ids=1,2,3"},
           {"identity", model, "--targets", std::string(target::portable_here().name)}}) {
    const std::string text = llmc(command).err, note = "llmc: note: onnx/model.onnx is used";
    const std::size_t at = text.find(note);
    EXPECT_NE(at, text.npos) << command[0] << ": " << text;
    EXPECT_EQ(text.find(note, at + 1), text.npos) << command[0] << ": " << text;
  }
}

}  // namespace
}  // namespace llmc::tests
#endif
