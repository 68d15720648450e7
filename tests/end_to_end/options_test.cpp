// Options of the llmc program: misspelled names, names of other programs, token counts, and options
// without effect.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "tests/end_to_end/mistakes.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/open_function.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::uint32_t planned_context(std::vector<std::string> more, std::string* notes = nullptr) {
  more.insert(more.begin(), {"plan", tinyfable().string(), "--target=generic", "--json"});
  const ProgramRun ran = llmc(more);
  EXPECT_EQ(ran.code, 0) << ran.err;
  if (notes != nullptr) *notes = ran.err;
  return nlohmann::json::parse(ran.out, nullptr, false)["options"]["ctx"];
}

TEST(TokenCounts, SuffixesAreMultiplesOf1024) {
  EXPECT_EQ(planned_context({"--ctx", "2k"}), 2048u);
  EXPECT_EQ(planned_context({"-c", "1K"}), 1024u);
  EXPECT_EQ(planned_context({"--ctx-size=1M"}), 1048576u);
  for (const char* const wrong : {"k", "2kk", "2.5k", "-1k", "9000000000000000000k", "2g", ""}) {
    const ProgramRun ran = llmc({"plan", tinyfable().string(), "--ctx", wrong});
    EXPECT_EQ(ran.code, 2) << wrong;
    EXPECT_THAT(ran.err, HasSubstr("--ctx takes a whole number from 1 to"));
  }
  EXPECT_THAT(llmc({"plan", "--help"}).out, HasSubstr("TOKENS: a number of tokens; 2k"));
}

TEST(TrainedContextOption, TheDefaultIsTheModelsAndMoreIsAWarning) {
  std::string notes;
  EXPECT_EQ(planned_context({}, &notes), 384u);
  EXPECT_EQ(notes, "");
  EXPECT_EQ(planned_context({"--ctx", "385"}, &notes), 385u);
  EXPECT_THAT(notes, AllOf(HasSubstr("llmc: warning: a context of 385 tokens is longer than the "
                                     "384 that the model was trained for"),
                           HasSubstr("hint: --ctx 384")));
  EXPECT_THAT(llmc({"plan", tinyfable().string()}).out,
              HasSubstr("384 tokens (trained context) in 12 blocks of 32"));
}

TEST(Suggestions, NameTheCommandThatWasMeant) {
  expect_mistake({"rnu", "x"}, "unknown command 'rnu'", "did you mean llmc run?");
  EXPECT_THAT(llmc({"tokenise"}).err, HasSubstr("did you mean llmc tokenize?"));
  EXPECT_THAT(llmc({"xyzzy"}).err, HasSubstr("llmc --help"));
  expect_mistake({"run", "x", "--nosuch"}, "--nosuch", "llmc run --help");
  EXPECT_THAT(llmc({"plan"}).err, HasSubstr("llmc plan --help"));
  EXPECT_THAT(
      llmc({"run", "x", "Once upon a time"}).err,
      HasSubstr("'Once upon a time'\nhint: x is the model already; give the prompt by -p TEXT"));
  EXPECT_THAT(llmc({"run", "Once", "-m", "x"}).err,
              HasSubstr("'Once'\nhint: x is the model already; give the prompt by -p TEXT"));
  EXPECT_THAT(llmc({"run", "x", "-p", "Once", "upon"}).err,
              HasSubstr("'upon'\nhint: x is the model already; put the prompt of -p in quotes"));
  EXPECT_THAT(llmc({"plan", "x", "y"}).err,
              HasSubstr("'y'\nhint: x is the model already; llmc plan --help"));
}

TEST(Suggestions, NameTheOptionThatWasMeant) {
  EXPECT_THAT(llmc({"run", "x", "--promt", "a"}).err, HasSubstr("did you mean --prompt?"));
  // --temperature is an alias of --temp.
  EXPECT_THAT(llmc({"run", "x", "--temprature", "0"}).err, HasSubstr("did you mean --temp?"));
  EXPECT_THAT(llmc({"run", "--modle", "x"}).err, HasSubstr("did you mean --model?"));
  EXPECT_THAT(llmc({"targets", "--modle"}).err, HasSubstr("llmc targets --help"));
  EXPECT_THAT(llmc({"run", "x", "--", "--temp"}).err,
              HasSubstr("'--temp'\nhint: options go before --"));
  expect_mistake({"run", "x", "--ngl", "99"}, "--ngl must be 0", "--accelerate opencl");
  expect_mistake({"compile", "x", "--quant"}, "--quant needs a value: FORMAT",
                 "llmc compile --help");
  expect_mistake({"compile", "x", "--quant", "-o", "y"},
                 "--quant needs a value, but '-o' is an option", "write --quant=-o");
  expect_mistake({"run", "x", "-p", "-n", "3"}, "-p needs a value, but '-n' is an option",
                 "write -p-n if");
  for (const char* const option : {"--target", "--kv", "--accelerate", "--name"})
    expect_mistake({"compile", "x", std::string(option) + "="}, option, "llmc compile --help");
  expect_mistake({"run", "x", "-p", "a", "--target", "avx2,arm64"}, "one target is needed",
                 "llmc plan");
  expect_mistake({"test-onnx", "x", "y", "--rtol", "-1"}, "takes a number of at least 0",
                 "llmc test-onnx --help");
}

TEST(NamesOfLlamaCpp, AreTakenWhereTheyMeanTheSame) {
  const std::string model = tinyfable().string();
  const ProgramRun plain = llmc({"plan", model, "--target", "generic"});
  for (const auto& more : std::vector<std::vector<std::string>>{
           {"-m", model}, {"--model", model}, {"--model=" + model}}) {
    std::vector<std::string> arguments{"plan", "--target", "generic", "-ngl", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun named = llmc(arguments);
    EXPECT_EQ(named.code, 0) << named.err;
    EXPECT_EQ(named.out, plain.out);
  }
  for (const char* const layers : {"99", "all", ""})
    expect_mistake({"run", model, "-p", "x", "-ngl", layers}, "-ngl must be 0, not '",
                   "remove the option");
  expect_mistake({"run", model, "--n-gpu-layers=7"}, "--n-gpu-layers must be 0, not '7'", "remove");
  expect_mistake({"run", model, "-ngl"}, "-ngl needs a value", "");
  expect_mistake({"run", model, "-p", "x", "-cnv"}, "llmc run continues one text",
                 "llmc chat MODEL");
  expect_mistake({"chat", model, "-no-cnv"}, "llmc chat holds conversations", "llmc run MODEL");
  // One dash and two letters are no option with a value.
  expect_mistake({"run", model, "-p", "x", "-fa"}, "-fa: fused attention is always on",
                 "remove the option");
  expect_mistake({"run", model, "-np", "4"},
                 "-np: the number of sequences is set when a model is compiled", "--sequences N");
  expect_mistake({"run", model, "-ctk", "q8_0"}, "-ctk: keys and values", "--kv");
  // Arguments after -- and values are no options.
  EXPECT_THAT(llmc({"tokenize", model, "--", "-cnv"}).out, Not(HasSubstr("error")));
  // The command line is found right, and only then no compiler.
  const ProgramRun chat = llmc({"chat", "-m", model, "-cnv", "--temperature", "0"},
                               {"LLMC_CC=/nowhere/clang++", "XDG_CACHE_HOME=/nowhere"});
  EXPECT_EQ(chat.code, 6) << chat.err;
  const ProgramRun run = llmc({"run", "-m", model, "--prompt", "x", "--predict", "1k", "-no-cnv"},
                              {"LLMC_CC=/nowhere/clang++", "XDG_CACHE_HOME=/nowhere"});
  EXPECT_EQ(run.code, 6) << run.err;
}

TEST(NamesOfLlamaCpp, ValuesOfOptionsAreNotTranslated) {
  const std::string model = tinyfable().string();
  const std::vector<std::string> nowhere{"LLMC_CC=/nowhere/clang++", "XDG_CACHE_HOME=/nowhere"};
  // Command lines that are right end at the compiler.
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", model, "-p", "-r"},
                                             {"run", model, "-p", "-fa"},
                                             {"run", model, "-p", "-m"},
                                             {"run", model, "-qp", "--gpu-layers"},
                                             {"run", model, "-p", "x", "--stop", "-m"},
                                             {"run", model, "-p", "x", "--reverse-prompt", "--"},
                                             {"run", model, "-p", "x", "-r", "-m"},
                                             {"chat", model, "--system", "-b"},
                                             {"chat", model, "-sys", "-no-cnv"}}) {
    const ProgramRun ran = llmc(arguments, nowhere);
    EXPECT_EQ(ran.code, 6) << arguments.back() << ": " << ran.err;
    if (arguments.back() == "-r") EXPECT_THAT(ran.err, Not(HasSubstr("write")));
  }
  // -p has its value already: what follows is an option.
  expect_mistake({"run", model, "-p=x", "-fa"}, "-fa: fused attention is always on",
                 "remove the option");
  expect_mistake({"run", model, "--prompt=x", "-fa"}, "-fa: fused attention is always on",
                 "remove");
}

TEST(Options, AnEmptyValueAfterAnEqualsSignIsNotTheNextArgument) {
  const std::string model = tinyfable().string();
  expect_mistake({"plan", model, "--quant=", "--kv", "f16"}, "--quant", "");
  expect_mistake({"plan", model, "--target=", "--quant", "q8"}, "--target: is empty", "");
  expect_mistake({"run", model, "--prompt=", "--quant", "q5"}, "--quant q5", "");
}

TEST(Options, ErrorsOfTheParserAreInPlainWords) {
  const std::string model = tinyfable().string();
  expect_mistake({"run", model, "-p", "a", "-p", "b"}, "error: --prompt is given 2 times\n", "");
  expect_mistake({"run", model, "-p", "a", "--cores", "x, y"},
                 "error: --cores takes even or uneven, not 'x, y'\n", "");
  expect_mistake({"plan", model, "--cache=foo"},
                 "error: --cache takes blocked or contiguous, not 'foo'\n", "");
  expect_mistake({"bench", model, "-o", "x"},
                 "error: --output takes text, md, csv or json, not 'x'", "");
  expect_mistake({"run", model, "-p", "a", "-f", "b"},
                 "error: --prompt cannot be combined with --file\n", "");
  expect_mistake({"plan", model, "--in-flight", "3"}, "error: --in-flight needs --accelerate\n",
                 "");
  expect_mistake({"run", model, "-p"}, "error: --prompt needs a value: TEXT\n", "");
}

TEST(Options, FlagsTakeNoValues) {
  const std::string model = tinyfable().string();
  for (const char* const value : {"5", "true", "false", ""})
    expect_mistake({"plan", model, std::string("--json=") + value},
                   "error: --json takes no value\n", "write --json, or leave it out");
  expect_mistake({"plan", model, "-q=false"}, "error: -q takes no value\n", "");
  expect_mistake({"plan", model, "-qv=1"}, "error: -v takes no value\n", "");
  expect_mistake({"run", model, "-p", "a", "--log-disable=1"},
                 "error: --log-disable takes no value", "");
  expect_mistake({"plan", model, "--mlock=banana"}, "error: --mlock takes no value", "");
  expect_mistake({"--version=3"}, "error: --version takes no value", "");
  expect_mistake({"--help=3"}, "error: --help takes no value", "");
  expect_mistake({"plan", model, "--jsno=5"}, "has no option --jsno", "did you mean --json?");
}

TEST(Options, ErrorsNameTheWrongIdAndTheMissingFolder) {
  const std::string model = tinyfable().string();
  expect_mistake({"run", model, "--ids", "1,abc,3"}, "'abc' is not a number from 0 to", "");
  expect_mistake({"run", model, "--ids", "1,2,"}, "a number is missing beside a comma", "");
  const ProgramRun test = llmc({"test-onnx", model, "no-such-folder"});
  EXPECT_EQ(test.code, 3) << test.err;
  EXPECT_THAT(test.err, HasSubstr("no-such-folder: cannot open: No such file"));
  const std::string file = (tinyfable() / "llm_config.json").string();
  EXPECT_THAT(llmc({"test-onnx", model, file}).err, HasSubstr("llm_config.json: is not a folder"));
  const ProgramRun identity = llmc({"identity", model, "no-such-model"});
  EXPECT_EQ(identity.code, 3) << identity.err;
  EXPECT_THAT(identity.err, HasSubstr("no-such-model: cannot open: No such file"));
  EXPECT_EQ(identity.out, "") << "no row is printed before all paths are checked";
}

TEST(NamesOfLlamaCpp, ModelsComeInTheirOrderAndAreNoOptions) {
  const std::string model = tinyfable().string();
  expect_mistake({"plan", "-m", "--json", model}, "-m needs a model, but '--json' is an option",
                 "-m ./NAME");
  expect_mistake({"plan", "--model=-q", model}, "--model needs a model, but '-q' is an option",
                 "--model MODEL");
  expect_mistake({"plan", model, "-m"}, "-m needs a value", "");
  const auto error_of = [](const std::vector<std::string>& arguments) {
    return llmc(arguments).err;
  };
  const std::string both =
      error_of({"identity", "-m", "/nowhere/a.onnx", "--model=/nowhere/b.onnx"});
  EXPECT_EQ(both, error_of({"identity", "/nowhere/a.onnx", "/nowhere/b.onnx"}));
  EXPECT_THAT(both, AllOf(HasSubstr("/nowhere/a.onnx"), Not(HasSubstr("/nowhere/b.onnx"))));
}

TEST(NamesOfLlamaCpp, ThatChangeNothingAreTakenAndOthersSayWhatToDo) {
  const std::string model = tinyfable().string();
  const std::vector<std::string> nowhere{"LLMC_CC=/nowhere/clang++", "XDG_CACHE_HOME=/nowhere"};
  const auto said = [&](std::vector<std::string> arguments) {
    const ProgramRun ran = llmc(arguments, nowhere);
    EXPECT_EQ(ran.code, 6) << ran.err;  // no compiler, so the options were taken
    return ran.err;
  };
  EXPECT_THAT(said({"run", model, "-p", "x", "--mlock", "--no-mmap", "--color", "--simple-io"}),
              AllOf(HasSubstr("llmc: note: --mlock has no effect"),
                    HasSubstr("llmc: note: --no-mmap has no effect")));
  EXPECT_THAT(said({"run", model, "-p", "x", "--mlock", "--log-disable"}), Not(HasSubstr("note:")));
  EXPECT_THAT(said({"chat", model, "--jinja", "-i"}), Not(HasSubstr("note:")));
  expect_mistake({"run", model, "-p", "x", "--jinja"}, "--jinja: ", "--chat");
  expect_mistake({"run", model, "-p", "x", "-i"}, "-i: ", "llmc chat MODEL");
  expect_mistake({"run", model, "-p", "x", "-e"}, "-e: escapes", "$'");
  expect_mistake({"chat", model, "-st"}, "-st: ", "-p TEXT");
  expect_mistake({"chat", model, "--chat-template", "chatml"},
                 "--chat-template: llmc has no named templates", "--chat-template-file");
  expect_mistake({"run", model, "-p", "x", "--verbose-prompt"},
                 "--verbose-prompt: ", "llmc tokenize");
  expect_mistake({"plan", model, "-c", "0"}, "--ctx: 0 is not a valid context: remove the option",
                 "");
  for (const auto& [name, like] :
       std::vector<std::pair<std::string, std::string>>{{"Q4_K_M", "q4"},
                                                        {"Q4_0", "q4"},
                                                        {"IQ3_XS", "q4"},
                                                        {"Q5_K_S", "q6"},
                                                        {"Q6_K", "q6"},
                                                        {"Q8_0", "q8"},
                                                        {"BF16", "f16"},
                                                        {"F32", "f32"},
                                                        {"int4", "q4"},
                                                        {"int8", "q8"},
                                                        {"fp8", "q8"},
                                                        {"fp16", "f16"},
                                                        {"bfloat16", "f16"},
                                                        {"float32", "f32"}}) {
    expect_mistake({"plan", model, "--quant", name}, "--quant " + name,
                   (like == "q4" ? "use q4m, the default, or " : "use ") + like + ", the nearest");
  }
  expect_mistake({"plan", model, "--quant", "q44"}, "--quant q44", "use q4, q4m, q6");
}

TEST(FormerSpellings, GetANote) {
  const std::string model = tinyfable().string();
  const std::vector<std::string> nowhere{"LLMC_CC=/nowhere/clang++", "XDG_CACHE_HOME=/nowhere"};
  EXPECT_THAT(llmc({"chat", model, "-r", "User:"}, nowhere).err,
              HasSubstr("use --reverse-prompt: "));
  EXPECT_THAT(llmc({"chat", model, "--reverse-prompt", "User:"}, nowhere).err,
              Not(HasSubstr("write")));
  EXPECT_THAT(llmc({"chat", model, "-q", "-r", "User:"}, nowhere).err, Not(HasSubstr("write")));
  EXPECT_THAT(llmc({"tune", "--cc", "/nowhere/clang++", "-o", "tiles.h"}).err,
              AllOf(HasSubstr("llmc: note: "), HasSubstr("use --header FILE: ")));
}

TEST(PlanText, OneBlockIsOne) {
  const ProgramRun ran = llmc({"plan", tinyfable().string(), "--target=generic", "--pool", "1"});
  EXPECT_THAT(ran.out, HasSubstr(" in 1 block of 32"));
}

TEST(TokenizerOfAnotherModel, IsAWarningBeforeTheModelIsRun) {
  const testing::TemporaryFolder folder;
  const fs::path model = folder.path() / "model";
  fs::copy(tinyfable(), model);
  fs::remove(model / "tokenizer.txt");
  fs::remove(model / "tokenizer.model");
  std::string vocabulary;
  for (int id = 0; id < 1199; ++id) vocabulary += fmt::format(R"("t{}": {}, )", id, id);
  vocabulary += R"("x": 1199)";
  const std::string json = R"({"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {)" +
                           vocabulary + R"(}, "merges": []}})";
  ASSERT_TRUE(write_file(model / "tokenizer.json", json).ok());
  const auto expect_warned = [&](const std::string& command) {
    const ProgramRun ran = llmc({command, model.string()});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("llmc: warning: " + (model / "tokenizer.json").string()),
                               HasSubstr("has 1200 tokens, the model 1100")))
        << command;
  };
  expect_warned("plan");
  expect_warned("inspect");
  const std::string file = (model / "tokenizer.json").string();
  for (const char* const command : {"run", "chat"}) {
    const ProgramRun ran = llmc({command, model.string(), "--no-cache", "-p", "x"});
    EXPECT_EQ(ran.code, 3) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("hint: " + file + " belongs to another model"));
  }
}

TEST(Targets, NativeIsTakenAndOthersSuggest) {
  EXPECT_EQ(llmc({"plan", tinyfable().string(), "--target=native"}).code, 0);
  expect_mistake({"plan", tinyfable().string(), "--target=x86-64"}, "unknown target 'x86-64'",
                 "avx2 needs Haswell");
}

TEST(Decoders, TextNeedsOne) {
  const testing::TemporaryFolder folder;
  const std::string model = write_open_function(folder.path()).string();
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run", "-p", "a"},
                                                  {"run", "--ids", "1"},
                                                  {"chat", "-p", "a"},
                                                  {"ppl", "--text", model},
                                                  {"compare", "--text", model}}) {
    std::vector<std::string> arguments{command[0], model};
    arguments.insert(arguments.end(), command.begin() + 1, command.end());
    const ProgramRun ran = llmc(arguments);
    EXPECT_EQ(ran.code, 4) << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("is not a decoder"), HasSubstr("llmc compile MODEL"),
                               HasSubstr("llmc bench MODEL --dim batch_size=1")));
  }
}

TEST(FunctionOptions, WhatChangesNothingIsSaid) {
  const testing::TemporaryFolder folder;
  const std::string model = write_open_function(folder.path()).string();
  std::vector<std::string> plan{"plan",  model,
                                "--dim", "batch_size=1",
                                "--dim", "e_dim3=2",
                                "--dim", "past_sequence_length=4",
                                "--dim", "encoder/sequence=3"};
  const std::string plain = llmc(plan).err;
  EXPECT_EQ(plain, "");
  plan.insert(plan.end(),
              {"--quant", "q8", "--ctx", "1k", "--kv", "f32", "--sequences", "2", "--batch", "2",
               "--pool", "9", "--chunk", "8", "--block", "8", "--cache", "blocked"});
  const ProgramRun noted = llmc(plan);
  EXPECT_EQ(noted.code, 0) << noted.err;
  EXPECT_THAT(noted.err, HasSubstr("llmc: warning: no effect on " + model));
  for (const char* const option :
       {"--ctx", "--kv", "--sequences", "--batch", "--pool", "--chunk", "--block", "--cache"})
    EXPECT_THAT(noted.err, HasSubstr(option));
  EXPECT_THAT(noted.err, HasSubstr("--quant q8 has no effect: the graph has no matrix"));
  plan.push_back("-q");
  EXPECT_EQ(llmc(plan).err, "");
  plan.insert(plan.end(), {"--grammar", "root ::= \"x\""});
  EXPECT_EQ(llmc(plan).code, 2) << "asks for what a function does not have";
  // The options of functions do have an effect: no warning.
  EXPECT_EQ(llmc({"plan", model, "--opt-level=1", "--target=generic", "--max-ram=1M", "--dim",
                  "batch_size=1", "--dim", "e_dim3=2", "--dim", "past_sequence_length=4", "--dim",
                  "encoder/sequence=3"})
                .err,
            "");
}

TEST(KeptCodes, TheOptionAndTheLimitSayWhatWasDone) {
  const fs::path model = shared_folder() / "onnx-samples/hfq-llama-ts18-dynamic8/model.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << model << " is not there";
  const ProgramRun planned = llmc({"plan", model.string(), "--quant", "q4"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("--quant q4 changes no weights: all keep the model's codes"));
  const std::string no_tokenizer = fmt::format(
      "llmc: note: {} comes without a tokenizer (docs/tokenizers.md): `llmc run` will take token "
      "ids "
      "instead of text\n",
      model.string());
  // The size of the context is said, too, unless an option gives it.
  EXPECT_EQ(llmc({"plan", model.string(), "--ctx", "256"}).err, no_tokenizer);
  const ProgramRun exact = llmc({"plan", model.string(), "--ctx", "256", "--quant", "f32"});
  EXPECT_EQ(exact.err, no_tokenizer) << "as floats none is kept";
}

}  // namespace
}  // namespace llmc::tests
#endif
