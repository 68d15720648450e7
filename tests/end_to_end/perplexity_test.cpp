// Perplexity and divergence of models compiled on the spot, against plain loops; `llmc ppl`.
#include "compiler/evaluate/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support/temporary_folder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

const std::vector<std::int32_t> kMeasured{5,  9,  14, 3, 3,  250, 17, 80,
                                          81, 82, 83, 7, 44, 45,  46, 200};

evaluate::PerplexityOptions options_of(const ModelFolder& model, ir::WeightFormat format,
                                       const evaluate::WindowOptions& windows) {
  evaluate::PerplexityOptions options{.native = {}, .threads = 2, .text = {}};
  options.native.compile = options_for(model.path(), "generic", format);
  options.native.compile.opt_level = 1;
  options.text.tokens = kMeasured;
  options.text.windows = windows;
  return options;
}

/// -ln p of ids[at] by the float oracle, which sees what is before it in the window.
double oracle_loss(const ModelFolder& model, const std::vector<std::int64_t>& ids, std::size_t at) {
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(at);
  const std::vector<float> logits = model.model().logits({ids.begin(), end});
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  return std::log(sum) - logits[static_cast<std::size_t>(ids[at])];
}

TEST(Perplexity, IsWhatTheOracleSays) {
  const ModelFolder model;
  {
    // 1 + 8 tokens twice, nothing left; all of the text counted.
    const auto report = evaluate::measure_perplexity(
        options_of(model, ir::WeightFormat::kF32,
                   {.size = 9, .scored = evaluate::ScoredTokens::kAll, .bos = 1}));
    ASSERT_TRUE(report.ok()) << format(report.error().first());
    double loss = 0;
    for (std::size_t begin = 0; begin < kMeasured.size(); begin += 8) {
      std::vector<std::int64_t> ids{1};
      for (std::size_t i = begin; i < begin + 8; ++i) ids.push_back(kMeasured[i]);
      for (std::size_t i = 1; i < ids.size(); ++i) loss += oracle_loss(model, ids, i);
    }
    EXPECT_EQ(report->predicted, 16u);
    EXPECT_EQ(report->windows, 2u);
    EXPECT_NEAR(report->mean_loss.value, loss / 16, 1e-5);
    EXPECT_NEAR(report->perplexity.value, std::exp(report->mean_loss.value), 1e-9);
    EXPECT_GT(report->mean_loss.error, 0);
  }
  // Windows of 1, 5, 9, 14, 3, 3 and 1, 80, 81, 82 …: the fourth and fifth counted.
  const auto report = evaluate::measure_perplexity(
      options_of(model, ir::WeightFormat::kF32, {.size = 6, .bos = 1}));
  ASSERT_TRUE(report.ok()) << format(report.error().first());
  double loss = 0;
  for (const std::vector<std::int64_t>& ids :
       {std::vector<std::int64_t>{1, 5, 9, 14, 3, 3}, {1, 17, 80, 81, 82, 83}}) {
    for (const std::size_t at : {4u, 5u}) loss += oracle_loss(model, ids, at);
  }
  EXPECT_EQ(report->predicted, 4u);
  EXPECT_NEAR(report->mean_loss.value, loss / 4, 1e-5);
}

TEST(Perplexity, DivergesFromF32AsPlainLoopsSay) {
  const ModelFolder model;
  // The chunk is 8: windows are read in several, and the counted rows lie in two of them.
  evaluate::PerplexityOptions options =
      options_of(model, ir::WeightFormat::kQ4, {.size = 14, .max_windows = 1});
  options.native.compile.chunk = 8;
  options.native.compile.batch = 3;
  options.divergence = true;
  const auto report = evaluate::measure_perplexity(options);
  ASSERT_TRUE(report.ok()) << format(report.error().first());
  ASSERT_TRUE(report->divergence.has_value());

  const auto tested = load(options.native.compile);
  const auto base = load(evaluate::base_options(options.native).compile);
  ASSERT_TRUE(tested && base);
  const auto one = tested->start(1), two = base->start(1);
  ASSERT_TRUE(one.ok() && two.ok());
  double kl = 0, loss = 0, base_loss = 0;
  for (std::size_t i = 0; i + 1 < 14; ++i) {
    ASSERT_TRUE((*one)->prefill(std::span(kMeasured).subspan(i, 1)).ok());
    ASSERT_TRUE((*two)->prefill(std::span(kMeasured).subspan(i, 1)).ok());
    if (i < 7) continue;
    const auto q = (*one)->logits(), p = (*two)->logits();
    ASSERT_TRUE(q.ok() && p.ok());
    double q_sum = 0, p_sum = 0;
    for (const float x : *q) q_sum += std::exp(static_cast<double>(x));
    for (const float x : *p) p_sum += std::exp(static_cast<double>(x));
    for (std::size_t v = 0; v < q->size(); ++v) {
      const double from = std::exp(static_cast<double>((*p)[v])) / p_sum;
      kl += from * std::log(from / (std::exp(static_cast<double>((*q)[v])) / q_sum));
    }
    const auto next = static_cast<std::size_t>(kMeasured[i + 1]);
    loss += std::log(q_sum) - (*q)[next];
    base_loss += std::log(p_sum) - (*p)[next];
  }
  EXPECT_EQ(report->predicted, 6u);
  EXPECT_GT(kl, 1e-6) << "nothing to see";
  EXPECT_NEAR(report->divergence->kl.value, kl / 6, 1e-9);
  EXPECT_NEAR(report->mean_loss.value, loss / 6, 1e-9);
  EXPECT_NEAR(report->divergence->ratio.value, std::exp((loss - base_loss) / 6), 1e-9);
}

TEST(Perplexity, RefusesTokensOutsideTheVocabulary) {
  const ModelFolder model;
  auto options = options_of(model, ir::WeightFormat::kF32, {});
  options.text.tokens[2] = 30000;
  const auto report = evaluate::measure_perplexity(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().first().kind, ErrorKind::kBadInput);
}

#ifdef LLMC_PROGRAM

const std::string kModel = tinyfable().string();
const std::string kFast = "--cflag=-O1";
const std::string kText = (tinyfable() / "heldout.txt").string();

nlohmann::json measured(std::vector<std::string> more) {
  more.insert(more.begin(), {"ppl", kModel, kFast, "--text", kText, "--json"});
  const ProgramRun ran = llmc(more);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return nlohmann::json::parse(ran.out, nullptr, false);
}

TEST(PplCommand, GivesTheShippedModelThePerplexityThatTorchMeasured) {
  // golden.json: windows of 256 ids after <s>, all scored.
  const auto text = read_file(tinyfable() / "golden.json");
  ASSERT_TRUE(text.ok());
  const auto golden = nlohmann::json::parse(*text)["perplexity"];
  const auto json = measured({"--quant=f32", "-c", "257", "--count", "all"});
  EXPECT_EQ(json["predicted"], golden["tokens"]);
  EXPECT_EQ(json["windows"], 20);
  EXPECT_NEAR(json["perplexity"].get<double>(), golden["perplexity"].get<double>(), 1e-4);
  EXPECT_EQ(json["counted"], "all");
  EXPECT_EQ(json["bos"], 1);
}

TEST(PplCommand, TheDivergenceIsFromTheSameModelInF32) {
  const std::vector<std::string> windows{"-c", "128", "--chunks", "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), windows.begin(), windows.end());
    return measured(more);
  };
  const auto plain = with({"--quant=f32"});
  EXPECT_EQ(plain["predicted"], 4 * 63);
  EXPECT_FALSE(plain.contains("kl"));
  const auto q4 = with({"--quant=q4", "--kv=K=int8,V=fp8", "--kl"});
  const auto& kl = q4["kl"];
  EXPECT_EQ(kl["base_perplexity"]["value"], plain["perplexity"]) << "the same bits";
  EXPECT_EQ(kl["base_perplexity"]["standard_error"], plain["perplexity_standard_error"]);
  EXPECT_GT(kl["mean"]["value"], 0.0);
  EXPECT_GT(kl["mean"]["standard_error"], 0.0);
  EXPECT_LT(kl["median"], kl["p90"]);
  EXPECT_LT(kl["p90"], kl["p99"]);
  EXPECT_LE(kl["p99"], kl["p99_9"]);
  EXPECT_LE(kl["p99_9"], kl["max"]);
  EXPECT_GT(kl["same_top"]["value"], 0.8);
  EXPECT_EQ(q4["kv"], "K=int8,V=fp8");
  const auto none = with({"--quant=f32", "--kl"})["kl"];
  EXPECT_EQ(none["max"], 0.0);
  EXPECT_EQ(none["same_top"]["value"], 1.0);
  EXPECT_EQ(none["perplexity_ratio"]["value"], 1.0);
}

TEST(PplCommand, PrintsTheErrorBesideTheResult) {
  const ProgramRun ran = llmc({"ppl", kModel, kFast, "--quant=f32", "-f", kText, "-c", "96",
                               "--ppl-stride", "64", "--chunks", "2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, MatchesRegex("perplexity +[0-9]+\\.[0-9]{4} \\+- [0-9]+\\.[0-9]{4}\n"));
  EXPECT_THAT(ran.err, HasSubstr("2 windows of 128 tokens with a BOS token, 64 tokens "
                                 "apart, the last 64 of each counted: 128 tokens; "));
}

TEST(PplCommand, WindowsLongerThanTheModelWasTrainedForAreAWarning) {
  const auto warned = [](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"ppl", kModel, "--cflag=-O0", "--text", kText, "--chunks", "1", "--json"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return std::pair(nlohmann::json::parse(ran.out, nullptr, false)["window"], ran.err);
  };
  const auto [window, warning] = warned({"-c", "400"});
  EXPECT_EQ(window, 400);
  EXPECT_THAT(warning, HasSubstr("llmc: warning: a window of 400 tokens is longer than the 384 "));
  const auto [usual, none] = warned({});
  EXPECT_EQ(usual, 384);
  EXPECT_EQ(none, "");
  const auto [strided, silent] = warned({"--ppl-stride", "64"});
  EXPECT_EQ(strided, 384);
  EXPECT_EQ(silent, "") << "nobody asked for a wider window";
}

TEST(PplCommand, TheDefaultWindowOfABundleMayBeLongerThanTheModelWasTrainedFor) {
  testing::TemporaryFolder out;
  const std::string bundle = (out.path() / "bundle").string();
  const ProgramRun made = llmc({"compile", kModel, "--cflag=-O0", "--ctx=400", "-o", bundle});
  ASSERT_EQ(made.code, 0) << made.err;
  const auto warned = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"ppl", bundle, "--chunks=1"});
    return llmc(more).err;
  };
  const auto no_warning = ::testing::Not(HasSubstr("warning"));
  EXPECT_THAT(warned({"--text", kText}),
              HasSubstr("llmc: warning: a window of 400 tokens is longer than the 384 "));
  EXPECT_THAT(warned({"--text", kText, "--window=384"}), no_warning);
  // Where there is an error, there is no warning of the same window.
  EXPECT_THAT(
      warned({"--text", kText, "--window=600"}),
      AllOf(HasSubstr("a window of 600 tokens does not fit the context of 400"), no_warning));
  EXPECT_THAT(warned({"--ids=1,2,3"}), AllOf(HasSubstr("but a window needs 400"), no_warning));
}

/// `words` in the first line, a hint behind it, nothing on stdout; said before anything is
/// compiled.
void expect_refused(const std::string& command, std::vector<std::string> more, int code,
                    const std::string& words) {
  more.insert(more.begin(), {command, kModel});
  const ProgramRun ran = llmc(more, {"LLMC_CC=/nowhere/clang++", "XDG_CACHE_HOME=/nowhere"});
  EXPECT_EQ(ran.code, code) << ran.err;
  EXPECT_THAT(ran.err.substr(0, ran.err.find('\n')), HasSubstr(words));
  EXPECT_THAT(ran.err, HasSubstr("\nhint: "));
  EXPECT_EQ(ran.out, "");
}

TEST(PplCommand, ParsesControlTokensOfTheTextWhenAsked) {
  testing::TemporaryFolder folder;
  const std::string chat = (folder.path() / "chat.txt").string();
  std::string text;
  for (int i = 0; i < 10; ++i) text += "<s> Once upon a time";
  ASSERT_TRUE(write_file(chat, text).ok());
  const auto counted = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"ppl", kModel, kFast, "--quant=f32", "--text", chat, "-c", "8",
                               "--count", "all", "--json"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const bool noted = ran.err.find("the text spells control tokens (<s>)") != ran.err.npos;
    EXPECT_NE(noted, more.back() == "--parse-special") << ran.err;
    return nlohmann::json::parse(ran.out, nullptr, false)["predicted"].get<int>();
  };
  EXPECT_GT(counted({}), counted({"--parse-special"})) << "three tokens become one";
  expect_refused("ppl", {"--ids", "1,2,3,4,5,6,7,8", "--parse-special"}, 2,
                 "--parse-special changes the text of");
}

TEST(PplCommand, RefusesWhatCannotBeMeasured) {
  testing::TemporaryFolder folder;
  const std::string brief = (folder.path() / "brief.txt").string();
  ASSERT_TRUE(write_file(brief, std::string_view("Once upon a time")).ok());
  expect_refused("ppl", {"--text", brief, "-c", "64"}, 3, brief + ": the text has ");
  expect_refused("ppl", {"--text", brief, "-c", "64"}, 3, "but a window needs 64");
  expect_refused("ppl", {"--text", (folder.path() / "none.txt").string()}, 3, "cannot be opened");
  expect_refused("ppl", {"--text", kText, "--quant", "q5"}, 2, "--quant q5");
  expect_refused("ppl", {"--text", kText, "--kv", "K=fp8"}, 2, "--kv K=fp8");
  expect_refused("ppl", {"--text", kText, "--window", "1"}, 2,
                 "--window takes a whole number from 2");
  expect_refused("ppl", {"--text", kText, "-c", "2"}, 2, "empty second half");
  expect_refused("ppl", {"--text", kText, "--count", "none"}, 2, "--count");
  expect_refused("ppl", {"--text", kText, "--count", "all", "--ppl-stride", "8"}, 2,
                 "--ppl-stride cannot be combined with --count");
  expect_refused("ppl", {"--text", kText, "--ppl-stride", "0"}, 2, "--ppl-stride takes");
  expect_refused("ppl", {"--text", kText, "-c", "8", "--ppl-stride", "16"}, 2,
                 "--ppl-stride 16 leaves");
  expect_refused("ppl", {"--text", kText, "--chunks", "0"}, 2, "--chunks takes");
  expect_refused("ppl", {"--text", kText, "--ids", "1"}, 2, "cannot be combined with --");
}

/// A file of another program for --peer with one format.
std::string peer_file(int predicted) {
  return nlohmann::json{{"program", "other 1.0"},
                        {"cache", "f32"},
                        {"predicted", predicted},
                        {"rows",
                         {{{"name", "A<B"},
                           {"weight_bytes", 300},
                           {"weight_bytes_per_token", 200},
                           {"perplexity", 9.5},
                           {"perplexity_standard_error", 0.5},
                           {"kl", 0.25},
                           {"kl_standard_error", 0.01},
                           {"same_top", 0.75}}}}}
      .dump();
}

TEST(PplCommand, CompareHasARowForEachFormatWithTheFiguresOfPpl) {
  const std::vector<std::string> windows{"-c", "128", "--chunks", "4"};
  std::vector<std::string> arguments{"compare", kModel, kFast,
                                     "--text",  kText,  "--quant",
                                     "f32,q4",  "--kv", "K=int8,V=fp8,K=int8,V=fp8",
                                     "--steps", "5"};
  arguments.insert(arguments.end(), windows.begin(), windows.end());
  ProgramRun ran = llmc(arguments);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 3) << ran.out;
  EXPECT_THAT(ran.out, StartsWith("weights  cache  "));
  EXPECT_THAT(ran.out, HasSubstr("\nq4       K=int8,V=fp8  "));
  EXPECT_THAT(ran.err, HasSubstr("median of 5 after 64 tokens"));
  arguments.insert(arguments.end(), {"-o", "md"});
  ran = llmc(arguments);
  EXPECT_THAT(ran.out, HasSubstr("\n|---|---|---:|"));
  EXPECT_THAT(ran.out, HasSubstr("\n| f32 | K=int8,V=fp8 | "));
  arguments.back() = "json";
  const testing::TemporaryFolder folder;
  const fs::path peer = folder.path() / "peer.json", chart = folder.path() / "chart.svg";
  ASSERT_TRUE(write_file(peer, peer_file(252)).ok());  // 4 windows, 63 tokens counted in each
  arguments.insert(arguments.end(), {"--peer", peer.string(), "--svg", chart.string()});
  ran = llmc(arguments);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["predicted"], 252);
  ASSERT_EQ(json["rows"].size(), 2u) << "each mode once";
  const auto& f32 = json["rows"][0];
  const auto& q4 = json["rows"][1];
  EXPECT_EQ(f32["quant"], "f32");
  EXPECT_EQ(f32["kl"]["base_perplexity"], q4["kl"]["base_perplexity"]);
  EXPECT_LT(f32["kl"]["mean"]["value"], q4["kl"]["mean"]["value"]);
  EXPECT_GT(f32["weight_bytes_per_token"], q4["weight_bytes_per_token"]);
  EXPECT_EQ(q4["quant"], "q4");
  EXPECT_EQ(q4["kv"], "K=int8,V=fp8");
  EXPECT_GT(q4["step_seconds"], 0.0);
  EXPECT_NEAR(f32["bits_per_weight"].get<double>(), 32, 0.2);  // rows of the embedding have 16
  ASSERT_EQ(json["peers"].size(), 1u);
  EXPECT_EQ(json["peers"][0]["program"], "other 1.0");
  EXPECT_EQ(json["peers"][0]["rows"][0]["name"], "A<B");
  EXPECT_EQ(json["peers"][0]["rows"][0]["kl"], 0.25);
  EXPECT_DOUBLE_EQ(
      json["peers"][0]["rows"][0]["bits_per_weight"].get<double>(),
      200 * q4["bits_per_weight"].get<double>() / q4["weight_bytes_per_token"].get<double>());
  const auto svg = read_file(chart);
  ASSERT_TRUE(svg.ok());
  EXPECT_THAT(*svg, StartsWith("<svg "));
  for (const char* text : {">f32</text>", ">q4</text>", ">A&lt;B</text>", ">other 1.0</text>"})
    EXPECT_THAT(*svg, HasSubstr(text));
  EXPECT_EQ(folder.entries(), 2u) << "no temporary file is left";
  // `llmc plan` says the same bytes, `llmc ppl` the same quality.
  const ProgramRun planned = llmc({"plan", kModel, "--quant=q4", "--kv=K=int8,V=fp8", "--json"});
  const auto plan = nlohmann::json::parse(planned.out);
  EXPECT_EQ(q4["weight_bytes_per_token"], plan["bytes"]["weights_per_token"]);
  EXPECT_EQ(q4["cache_bytes_per_token"], plan["kv"]["token_bytes"]);
  const auto alone =
      measured({"--quant=q4", "--kv=K=int8,V=fp8", "--kl", "-c", "128", "--chunks", "4"});
  EXPECT_EQ(q4["perplexity"], alone["perplexity"]);
  EXPECT_EQ(q4["kl"], alone["kl"]);
  // Formats of floats have no use for a text.
  for (const char* const command : {"compare", "ppl", "run"}) {
    std::vector<std::string> floats{command, kModel, kFast, "--quant=f32", "--calibrate=builtin"};
    if (command == std::string("run")) {
      floats.insert(floats.end(), {"-p", "Once", "-n", "1"});
    } else {
      floats.insert(floats.end(), {"--text", kText, "-c", "128", "--chunks", "1"});
    }
    EXPECT_THAT(llmc(floats).err, HasSubstr("--calibrate has no effect")) << command;
  }
}

TEST(PplCommand, CompareRefusesWhatCannotBeCompared) {
  expect_refused("compare", {"--text", kText, "--quant", "f32,q5"}, 2, "--quant q5");
  expect_refused("compare", {"--text", kText, "--quant", ""}, 2, "--quant  is not");
  expect_refused("compare", {"--text", kText, "--kv", "f32,fp8"}, 2, "--kv fp8");
  expect_refused("compare", {"--text", kText, "--kv", "int8,V=f32,W=int8"}, 2, "--kv V=f32,W=int8");
  expect_refused("compare", {"--text", kText, "-o", "xml"}, 2, "--output");
  expect_refused("compare", {}, 2, "--text or --ids is required");
  const testing::TemporaryFolder folder;
  const std::string chart = (folder.path() / "chart.svg").string();
  const std::string empty = (folder.path() / "empty.txt").string();
  ASSERT_TRUE(write_file(empty, std::string_view()).ok());
  expect_refused("compare", {"--text", empty}, 3, "empty.txt: is empty");
  expect_refused("compare", {"--text", kText, "--svg", folder.path().string()}, 3, "is a folder");
  expect_refused("compare", {"--text", kText, "--svg", (folder.path() / "no/a.svg").string()}, 3,
                 "no does not exist");
  expect_refused("compare", {"--text", kText, "--quant", "f32", "--svg", chart}, 2,
                 "have no KL divergence to draw");
  const std::string peer = (folder.path() / "peer.json").string();
  expect_refused("compare", {"--text", kText, "--peer", peer}, 3, "peer.json: cannot open");
  ASSERT_TRUE(write_file(peer, std::string_view("{}")).ok());
  expect_refused("compare", {"--text", kText, "--peer", peer}, 3, "'program' is missing");
  EXPECT_FALSE(fs::exists(chart));
}

TEST(PplCommand, CompareRefusesAPeerThatWasMeasuredOnOtherTokens) {
  const testing::TemporaryFolder folder;
  const fs::path peer = folder.path() / "peer.json", chart = folder.path() / "chart.svg";
  ASSERT_TRUE(write_file(peer, peer_file(7)).ok());
  const ProgramRun ran =
      llmc({"compare", kModel, kFast, "--text", kText, "--quant", "f32", "-c", "128", "--chunks",
            "1", "--steps", "1", "--peer", peer.string(), "--svg", chart.string()});
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("peer.json: was measured on 7 tokens, not on 63\nhint: "));
  EXPECT_EQ(ran.out, "");
  EXPECT_FALSE(fs::exists(chart));
}

#endif  // LLMC_PROGRAM

}  // namespace
}  // namespace llmc::tests
