// The llmc program as people meet it: what it refuses, how it says so, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Exit code 2, `words` in the first line, nothing on stdout.
void expect_usage_error(const std::vector<std::string>& arguments, const std::string& words) {
  const ProgramRun ran = llmc(arguments);
  std::string line;
  for (const std::string& argument : arguments) line += argument + " ";
  EXPECT_EQ(ran.code, 2) << line << "\n" << ran.err;
  EXPECT_THAT(ran.err.substr(0, ran.err.find('\n')), HasSubstr(words)) << line;
  EXPECT_EQ(ran.out, "") << line;
}

/// A bundle of the shipped model, made once.
class CommandLine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    const ProgramRun made = llmc({"compile", tinyfable().string(), "-o", bundle().string(),
                                  "--target", "generic", "--name", "fable", "--cflag=-O1", "-q"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }
  static fs::path bundle() { return folder_->path() / "fable"; }

  /// A copy whose files a test may damage.
  static fs::path copy_into(const testing::TemporaryFolder& folder) {
    fs::copy(bundle(), folder.path() / "fable", fs::copy_options::recursive);
    return folder.path() / "fable";
  }

 private:
  static testing::TemporaryFolder* folder_;
};
testing::TemporaryFolder* CommandLine::folder_ = nullptr;

TEST_F(CommandLine, WhatABundleSettledCannotBeAskedOfIt) {
  const std::string path = bundle().string();
  for (const char* option : {"--target=generic", "--opt-level=1", "--quant=q8", "--ctx=64",
                             "--block=8", "--kv=f16", "--threads-max=2", "--cflag=-O2"}) {
    const std::string name = std::string(option).substr(0, std::string(option).find('='));
    for (const char* command : {"run", "bench", "ppl", "plan", "verify"}) {
      if (command == std::string("plan") && name == "--cflag") continue;  // it has none
      if (command == std::string("ppl") && name == "--ctx") continue;     // the windows' size there
      std::vector<std::string> arguments{command, path, option};
      if (command == std::string("run")) arguments.insert(arguments.end(), {"-p", "x"});
      if (command == std::string("ppl")) arguments.insert(arguments.end(), {"--ids", "1,2,3"});
      expect_usage_error(arguments, name + " cannot change a compiled bundle");
    }
  }
}

TEST_F(CommandLine, CommandsForModelsSayThatABundleIsNone) {
  const std::string path = bundle().string();
  for (const char* command : {"compile", "compare"}) {
    std::vector<std::string> arguments{command, path};
    if (command == std::string("compare")) arguments.insert(arguments.end(), {"--ids", "1,2"});
    if (command == std::string("compile")) arguments.insert(arguments.end(), {"-o", "/tmp/never"});
    expect_usage_error(arguments, path + " is a compiled bundle");
    EXPECT_THAT(llmc({command, "--help"}).out, Not(HasSubstr("a bundle\n"))) << command;
  }
}

TEST_F(CommandLine, ADamagedBundleIsBadInput) {
  const auto expect_damaged = [](const fs::path& path, const std::string& words) {
    for (const char* command : {"run", "bench", "plan", "inspect", "verify"}) {
      std::vector<std::string> arguments{command, path.string()};
      if (command == std::string("run")) arguments.insert(arguments.end(), {"--ids", "1,2"});
      const ProgramRun ran = llmc(arguments);
      EXPECT_EQ(ran.code, 3) << ran.err;
      EXPECT_THAT(ran.err, HasSubstr("damaged bundle: "));
      EXPECT_THAT(ran.err, HasSubstr(words));
    }
  };
  {
    testing::TemporaryFolder folder;
    const fs::path path = copy_into(folder);
    const auto bytes = fs::file_size(path / "libfable.a");
    for (const auto size : {bytes - 1, bytes / 2, std::uintmax_t{30}, std::uintmax_t{0}}) {
      fs::resize_file(path / "libfable.a", size);
      expect_damaged(path, "libfable.a is truncated");
    }
    fs::remove(path / "libfable.a");
    expect_damaged(path, "libfable.a is missing");
  }
  testing::TemporaryFolder folder;
  const fs::path path = copy_into(folder);
  for (const char* text :
       {"", "{", "{}", "[]", R"({"target": "nosuch", "options": {"weights": "embed"},
                           "bytes": {"weights": 1, "weights_per_token": 1}})"}) {
    ASSERT_TRUE(write_file(path / "fable.plan.json", std::string_view(text)).ok());
    expect_damaged(path, "fable.plan.json");
  }
}

TEST_F(CommandLine, BadValuesAreMistakesOfTheCommandLine) {
  const std::string model = tinyfable().string(), path = bundle().string();
  expect_usage_error({"plan", model, "--ctx", "0"}, "--ctx: 0 is not a valid context");
  expect_usage_error({"plan", model, "--ctx", "abc"}, "not 'abc'");
  expect_usage_error({"plan", model, "--ctx", "4294967297"}, "not '4294967297'");
  expect_usage_error({"plan", model, "--block", "7"}, "a KV cache block cannot have 7 tokens");
  expect_usage_error({"plan", model, "--chunk", "0"}, "--chunk takes");
  expect_usage_error({"plan", model, "--chunk", "512", "--ctx", "256"},
                     "--chunk 512 is more than --ctx 256");
  expect_usage_error({"plan", model, "--threads-max", "0"}, "--threads-max takes");
  expect_usage_error({"plan", model, "--quant", "q5"}, "--quant q5");
  expect_usage_error({"plan", model, "--kv", "f15"}, "--kv f15");
  for (const char* level : {"0", "4", "-1", "x", "1,2", ""})
    expect_usage_error({"plan", model, "--opt-level", level}, "--opt-level");
  expect_usage_error({"plan", model, "--cc", "clang++"}, "--cc");
  expect_usage_error({"verify", model, "--target=generic", "--ids", "1,5000"}, "5000");
  expect_usage_error({"verify", model, "-t", "0"}, "--threads takes");
  expect_usage_error({"verify", model, "--json", "-o", "md"}, "combined with --output md");
  const auto run = [&](std::vector<std::string> more, const std::string& words) {
    std::vector<std::string> arguments{"run", path, "-p", "Once"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_usage_error(arguments, words);
  };
  run({"-t", "0"}, "--threads takes");
  run({"-t", "99"}, "--threads 99: the model was compiled for at most 8");
  run({"--temp", "nan"}, "--temp takes");
  run({"--temp", "-1"}, "--temp takes");
  run({"--top-p", "5"}, "--top-p takes a number from 0 to 1, not '5'");
  run({"--top-p", "-1"}, "--top-p takes");
  run({"--top-k", "-3"}, "--top-k takes");
  run({"--min-p", "3"}, "--min-p takes");
  run({"--seed", "18446744073709551616"}, "--seed takes");
  run({"--seed", "-2"}, "--seed takes");
  run({"-n", "x"}, "--n-predict takes");
  run({"--tfs", "2"}, "--tfs takes");
  run({"--typical", "-1"}, "--typical takes");
  run({"--repeat-last-n", "-2"}, "--repeat-last-n takes a whole number from -1");
  run({"--repeat-penalty", "-1"}, "--repeat-penalty takes");
  run({"--mirostat", "3"}, "--mirostat takes a whole number from 0 to 2");
  run({"--dry-allowed-length", "x"}, "--dry-allowed-length takes");
  run({"--xtc-probability", "1.5"}, "--xtc-probability takes");
  run({"--logprobs", "-1"}, "--logprobs takes");
  for (const char* bias : {"", "5", "x+1", "5+", "5-x", "5+inf", "5+-1", "5+nan", "5*1"})
    run({"--logit-bias", bias}, "--logit-bias takes a token id");
  run({"--logit-bias", "5000+1"}, "--logit-bias: token 5000 is outside");
  for (const char* order : {"", "2023", "top_k;", "top_k,top_p", ";top_k", "Top_k"})
    run({"--samplers", order}, "--samplers: unknown stage");
  run({"--samplers", "top_k;penalties"}, "penalties and dry must be before");
  run({"--cfg-scale", "nan"}, "--cfg-scale takes");
  run({"--cfg-scale", "2"}, "--cfg-scale needs a negative prompt");
  run({"--cfg-scale", "2", "--cfg-negative-prompt", "x"},
      "needs a bundle with at least two sequences per step");
  expect_usage_error({"run", path, "--ids", "1,5000"}, "5000");
  expect_usage_error({"ppl", path, "--ids", "1,5000"}, "5000");
  expect_usage_error({"ppl", path, "--ids", "1,2,3", "-c", "3000"}, "3000");
  expect_usage_error({"ppl", path, "--ids", "1,2,3", "--kl"}, "a compiled bundle has no float");
  expect_usage_error({"plan", path, "--weights=file"}, "cannot change a compiled bundle");
  expect_usage_error({"bench", path, "-p", "4000"}, "4000");
  expect_usage_error({"bench", path, "-n", "2048"}, "2048");
  expect_usage_error({"bench", path, "-n", "0", "-p", "0"}, "nothing to measure");
}

TEST(BenchKernel, BadValuesAreMistakesOfTheCommandLine) {
  const auto refused = [](std::vector<std::string> more, const std::string& words) {
    more.insert(more.begin(), {"bench", "--kernel", "gemm"});
    expect_usage_error(more, words);
  };
  for (const char* shape :
       {"", "8", "8x8", "8x8x", "8x8x8x8", "8x8x8 ", "8*8*8", "-8x8x8", "ax8x8"})
    refused({"--shape", shape}, "--shape");
  for (const char* shape : {"0x8x8", "8x0x8", "8x8x0", "8x8x5000", "99999999x8x8"})
    refused({"--shape", shape}, "out of range");
  for (const char* format : {"", "q5", "q4,", ",", "q4 ,f32"})
    refused({"--format", format}, "--format");
  for (const char* level : {"0", "4", "1,5", "", "a"}) refused({"--opt-level", level}, "level");
  refused({"-t", "0"}, "--threads takes numbers from 1");
  refused({"-r", "0"}, "--repetitions takes");
  refused({"--target", "z80"}, "unknown target");
  EXPECT_THAT(llmc({"bench", "--kernel", "gemm", "--target", "amr64"}).err,
              HasSubstr("hint: did you mean arm64? known targets: "));
  refused({"model.onnx"}, "MODEL cannot be combined with --kernel");
  refused({"--quant", "q4"}, "--quant cannot be combined with --kernel");
  refused({"-p", "3"}, "--n-prompt cannot be combined with --kernel");
  refused({"--layers"}, "--layers cannot be combined with --kernel");
  expect_usage_error({"bench", "--kernel", "fft"}, "--kernel");
  expect_usage_error({"bench", "x", "--shape", "8x8x8"}, "--shape needs --kernel");
  expect_usage_error({"bench"}, "MODEL is required");
}

TEST(BenchKernel, OperandsThatFitNoMemoryAreRefusedBeforeAnyIsTaken) {
  const ProgramRun ran = llmc({"bench", "--kernel", "gemm", "--shape", "1048576x1048576x4096"});
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("bytes of memory"));
}

TEST(BenchKernel, PrintsEveryLevelAndTheSameBits) {
  const ProgramRun ran =
      llmc({"bench", "--kernel", "gemm", "--shape", "24x64x3", "--target", "generic", "--format",
            "q4", "--opt-level", "1,3", "-r", "2", "-o", "json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "progress is for terminals and for phases of minutes";
  const auto json = nlohmann::json::parse(ran.out);
  ASSERT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][0]["opt_level"], 1);
  EXPECT_EQ(json["results"][1]["opt_level"], 3);
  EXPECT_EQ(json["results"][1]["seconds"].size(), 2u);
  EXPECT_TRUE(json["results"][1].contains("times_level_1"));
  EXPECT_EQ(json["results"][0]["result_hash"], json["results"][1]["result_hash"]);
}

TEST_F(CommandLine, AsksForWhatIsMissing) {
  const std::string path = bundle().string();
  expect_usage_error({"run", path}, "a prompt is required");
  expect_usage_error({"run", path, "--ids", ""}, "--ids is empty");
  expect_usage_error({"tokenize", path}, "TEXT, --file, --ids or --c-table is required");
  expect_usage_error({"tokenize", path, "--ids", ""}, "--ids is empty");
  expect_usage_error({"tokenize", path, "--file", ""}, "--file: is empty");
  const std::string with = " cannot be combined with ";
  expect_usage_error({"tokenize", path, "--c-table", "--json"}, "--json" + with + "--c-table");
  expect_usage_error({"tokenize", path, "--ids=1", "--special"}, "--ids" + with + "--special");
  expect_usage_error({"ppl", path}, "--text or --ids is required");
  expect_usage_error({"ppl", path, "--text", ""}, "--text: is empty");
  expect_usage_error({}, "a command is required");
}

TEST_F(CommandLine, WritesTheTextAndWhyItEnded) {
  const std::string path = bundle().string();
  const ProgramRun some =
      llmc({"run", path, "-p", "Once upon a time", "-n", "5", "-t", "1", "--temp", "0"});
  EXPECT_EQ(some.code, 0);
  EXPECT_TRUE(some.out.starts_with("Once upon a time,")) << some.out;
  EXPECT_THAT(some.err, HasSubstr("generated: 5 tokens"));
  EXPECT_THAT(some.err, HasSubstr(" tokens/s"));
  EXPECT_THAT(some.err, HasSubstr("stopped at -n"));
  const ProgramRun whole = llmc({"run", path, "-p", "", "-n", "500", "-t", "1", "--temp", "0"});
  EXPECT_TRUE(whole.out.starts_with("O")) << "no space in front: " << whole.out.substr(0, 20);
  EXPECT_THAT(whole.err, HasSubstr("ended with a stop token"));
  const ProgramRun full =
      llmc({"run", path, "-p", "Once", "-n", "5000", "-t", "1", "--ignore-eos"});
  EXPECT_THAT(full.err, HasSubstr("the context of 384 tokens is full"));
}

TEST_F(CommandLine, ThePromptIsShownOnlyWhenItIsRun) {
  testing::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "one two ";
  const fs::path file = folder.path() / "long.txt";
  ASSERT_TRUE(write_file(file, std::string_view(text)).ok());
  const ProgramRun ran = llmc({"run", bundle().string(), "-f", file.string()});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr(bundle().string()));
  EXPECT_THAT(ran.err, HasSubstr("does not fit the context of 384"));
}

TEST_F(CommandLine, APromptFromAFileIsShownAsOneFromTheCommandLine) {
  testing::TemporaryFolder folder;
  const std::string text = "Once  upon\na time <s>";  // a tokenizer need not give it back
  const fs::path file = folder.path() / "prompt.txt";
  ASSERT_TRUE(write_file(file, text).ok());
  const ProgramRun given = llmc({"run", bundle().string(), "-n", "4", "--temp", "0", "-p", text});
  const ProgramRun read =
      llmc({"run", bundle().string(), "-n", "4", "--temp", "0", "-f", file.string()});
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_EQ(given.out.substr(0, text.size()), text);
  EXPECT_EQ(read.out, given.out);
}

TEST_F(CommandLine, SaysWhatAFileIsNot) {
  testing::TemporaryFolder folder;
  const fs::path text = folder.path() / "notes.txt";
  ASSERT_TRUE(write_file(text, std::string_view("hello, this is no model")).ok());
  for (const char* command : {"plan", "inspect"}) {
    const ProgramRun ran = llmc({command, text.string()});
    EXPECT_EQ(ran.code, 3);
    EXPECT_THAT(ran.err, HasSubstr(text.string() + ": is not an ONNX file")) << command;
  }
  for (const char* part : {"block_2.onnx", "lm.onnx"}) {
    const ProgramRun alone = llmc({"run", (tinyfable() / part).string(), "-p", "a"});
    EXPECT_EQ(alone.code, 4);
    EXPECT_THAT(alone.err, HasSubstr(std::string(part) +
                                     ": the file is one part of a split model\nhint: give the "
                                     "folder of the model: " +
                                     tinyfable().string()));
  }
  const ProgramRun head = llmc({"plan", (tinyfable() / "lm.onnx").string()});
  EXPECT_EQ(head.code, 0);
  EXPECT_THAT(head.err, HasSubstr("lm.onnx: the file is one part of a split model, and is"));
  EXPECT_EQ(llmc({"plan", (tinyfable() / "lm.onnx").string(), "--function"}).err, "");
  fs::copy(tinyfable() / "lm.onnx", folder.path() / "decoder.onnx");
  const ProgramRun other = llmc({"plan", folder.path().string()});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("it has decoder.onnx"));
}

TEST_F(CommandLine, AModelWithoutATokenizerIsToldBeforeItIsCompiled) {
  testing::TemporaryFolder folder;
  fs::copy(tinyfable(), folder.path() / "model");
  fs::remove(folder.path() / "model/tokenizer.txt");
  fs::remove(folder.path() / "model/tokenizer.model");
  const std::string model = (folder.path() / "model").string();
  const ProgramRun run = llmc({"run", model, "-p", "Once"}, {"LLMC_CC=/nowhere/clang++"});
  EXPECT_EQ(run.code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no tokenizer.txt"));
  EXPECT_THAT(run.err, HasSubstr("--ids"));
  const ProgramRun plan = llmc({"plan", model});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("note: " + model + " comes without a tokenizer"));
  const ProgramRun tokenize = llmc({"tokenize", model, "Once"});
  EXPECT_EQ(tokenize.code, 3);
  EXPECT_THAT(tokenize.err, Not(HasSubstr("--ids")));
  EXPECT_EQ(llmc({"tokenize", "/nowhere", "x"}).code, 3);
}

TEST_F(CommandLine, WhatIsNoModelIsNotSaidToLackATokenizer) {
  const testing::TemporaryFolder folder;
  for (const char* const command : {"run", "chat", "ppl"}) {
    std::vector<std::string> arguments{command, folder.path().string()};
    if (command == std::string("run")) arguments.insert(arguments.end(), {"-p", "x"});
    if (command == std::string("ppl")) arguments.insert(arguments.end(), {"-f", "/dev/null"});
    const ProgramRun ran = llmc(arguments);
    EXPECT_EQ(ran.code, 3) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("the folder has neither block_0.onnx nor model.onnx"));
    arguments[1] = (folder.path() / "nosuch").string();
    EXPECT_THAT(llmc(arguments).err, AllOf(HasSubstr("cannot open"), HasSubstr("hint: ")));
  }
}

TEST_F(CommandLine, AGoldenFileThatWasNamedHasToBeThere) {
  testing::TemporaryFolder folder;
  const ModelFolder model({.layers = 1});
  const std::string golden = (folder.path() / "nosuch.json").string();
  const std::vector<std::string> verify{"verify",    model.path().string(), "--golden",
                                        golden,      "--target=generic",    "--cflag=-O0",
                                        "--ctx=128", "--no-reference"};
  const ProgramRun missing = llmc(verify);
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr(golden));
  ASSERT_TRUE(write_file(golden, std::string_view("not json")).ok());
  const ProgramRun damaged = llmc(verify);
  EXPECT_EQ(damaged.code, 3);
  EXPECT_THAT(damaged.err, Not(HasSubstr("remove")));
}

TEST_F(CommandLine, ShowsWhereBytesAndBitsGo) {
  const ProgramRun q4 = llmc({"plan", tinyfable().string()});
  EXPECT_EQ(q4.code, 0);
  for (const char* format : {"\n  q4 ", "\n  q6 ", "\n  table ", "\n  f32 "})
    EXPECT_THAT(q4.out, HasSubstr(format));
  EXPECT_THAT(q4.out, HasSubstr("bits each: "));
}

TEST_F(CommandLine, VerifySaysWhichLimitIsMeant) {
  const ProgramRun ran = llmc({"verify", tinyfable().string(), "--target=generic", "--cflag=-O0"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("nats (limit 5e-01)"));
  EXPECT_THAT(ran.out, HasSubstr("rounding the weights to q4"));
}

TEST_F(CommandLine, WhatACompilerSaysIsShownInLines) {
  testing::TemporaryFolder folder;
  const fs::path fake = folder.path() / "clang++";
  ASSERT_TRUE(write_file(fake, std::string_view("#!/bin/sh\nprintf 'one\\ntwo\\033[31m\\n' >&2\n"
                                                "exit 1\n"))
                  .ok());
  ASSERT_EQ(::chmod(fake.c_str(), 0755), 0);
  const std::string out = (folder.path() / "bundle").string();
  const ProgramRun failed =
      llmc({"compile", tinyfable().string(), "-o", out, "--cc", fake.string(), "-q"});
  EXPECT_EQ(failed.code, 6);
  EXPECT_THAT(failed.err, HasSubstr("\n  one\n  two\\x1b[31m\nhint:"));
  const ProgramRun nothing =
      llmc({"compile", tinyfable().string(), "-o", out, "-q"}, {"LLMC_CC=/bin/true"});
  EXPECT_EQ(nothing.code, 6);
  EXPECT_THAT(nothing.err, HasSubstr("compiled nothing"));
  const ProgramRun flag =
      llmc({"compile", tinyfable().string(), "-o", out, "-q", "--cflag=--no-such-flag"});
  EXPECT_EQ(flag.code, 6);
  EXPECT_THAT(flag.err, HasSubstr("is every --cflag valid"));
}

TEST_F(CommandLine, ACacheThatCannotBeWrittenIsNoDeadEnd) {
  const ModelFolder model({.layers = 1});
  const ProgramRun ran = llmc({"run", model.path().string(), "--ids", "1,2", "--target=generic"},
                              {"XDG_CACHE_HOME=/proc/nowhere"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("--no-cache"));
}

TEST_F(CommandLine, TheBundleKnowsTheTokenizersIds) {
  const auto header = read_file(bundle() / "fable.h");
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(*header, HasSubstr("#define FABLE_BOS_ID 1\n"));
  EXPECT_THAT(*header, HasSubstr("#define FABLE_STOP_IDS {2}\n"));
  const auto plan = read_file(bundle() / "fable.plan.json");
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(*plan, HasSubstr("\"bos_id\": 1"));
  EXPECT_THAT(*plan, HasSubstr("\"stop_ids\""));
  EXPECT_TRUE(fs::exists(bundle() / "fable.tokenizer.bin"));
  const std::string text = "Once upon a time, \u00e4 7";
  const ProgramRun from_bundle = llmc({"tokenize", bundle().string(), text});
  EXPECT_EQ(from_bundle.code, 0) << from_bundle.err;
  EXPECT_EQ(from_bundle.out, llmc({"tokenize", tinyfable().string(), text}).out);
}

TEST_F(CommandLine, AVocabularyAsCTablesReadsAsTheTokenizerDoes) {
  const testing::TemporaryFolder folder;
  const ProgramRun table = llmc({"tokenize", bundle().string(), "--c-table"});
  ASSERT_EQ(table.code, 0) << table.err;
  // Quotes, a backslash, a trigraph, bytes outside ASCII and line ends all have to survive C.
  const ProgramRun ids = llmc({"tokenize", bundle().string(), "\"a\\n\" ?\?= \xC3\xA9\n1, Once 7"});
  ASSERT_EQ(ids.code, 0) << ids.err;
  std::string list = ids.out;
  while (list.ends_with('\n')) list.pop_back();
  const std::string program = table.out + "#include <stdio.h>\nstatic const int ids[] = {" + list +
                              "};\nint main(void) {\n"
                              "  for (unsigned i = 0; i < sizeof ids / sizeof *ids; ++i)\n"
                              "    for (uint32_t k = piece_start[ids[i]]; k < "
                              "piece_start[ids[i] + 1]; ++k) putchar(piece_text[k]);\n"
                              "  return sizeof piece_text != piece_start[PIECE_COUNT] + 1;\n}\n";
  ASSERT_TRUE(write_file(folder.path() / "pieces.c", std::string_view(program)).ok());
  const auto built = run_command(
      {"clang-19", "-std=c99", "-Wall", "-Wextra", "-Werror", "pieces.c", "-o", "pieces"},
      {.working_directory = folder.path()});
  ASSERT_TRUE(built.ok() && built->exit_code == 0) << built->standard_error;
  const auto text = run_command({(folder.path() / "pieces").string()});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->exit_code, 0);
  EXPECT_THAT(table.out, HasSubstr("#define PIECE_LEADING_SPACES_DROPPED 1\n"));
  const ProgramRun decoded = llmc({"tokenize", bundle().string(), "--ids", list});
  EXPECT_EQ(text->standard_output + "\n", " " + decoded.out);
}

}  // namespace
}  // namespace llmc::tests
#endif
