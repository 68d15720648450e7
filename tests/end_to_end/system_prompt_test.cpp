// A system prompt that is compiled into a library: what a session makes of it, by equality.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/driver/toolchain.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "runtime/hosted/model_library.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

/// Two whole blocks of 16 tokens and a part of a third.
const Tokens kSystemIds = [] {
  Tokens tokens{1};
  for (std::int32_t i = 0; i < 36; ++i) tokens.push_back(40 + i * 37 % 700);
  return tokens;
}();

class SystemPrompt : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = new testing::TemporaryFolder; }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }

  static driver::CompileOptions options(const std::string& target) {
    auto options = options_for(tinyfable(), target, passes::kQ4Mixed);
    options.block = 16;
    options.sequences = 3;
    options.out_dir = folder_->path() / target;
    options.system_prompt = {.text = {}, .ids = kSystemIds, .source = {}};
    return options;
  }
  /// The folder of a bundle that is compiled, once for each target.
  static fs::path bundle(const driver::CompileOptions& options) {
    if (!fs::exists(options.out_dir)) {
      const auto made = driver::compile_model(options);
      if (!made.ok()) expect_ok(made.error());
    }
    return options.out_dir;
  }
  static std::unique_ptr<exec::NativeModel> load_bundle(const fs::path& folder) {
    driver::CompileOptions bundle;
    bundle.model = folder;
    return load(bundle);
  }
  static json plan(const fs::path& folder) {
    return json::parse(*read_file(folder / "tinyfable.plan.json"));
  }
  static Tokens behind(const Tokens& more) {
    Tokens all = kSystemIds;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// The text after `more` equals that after the prompt and `more` in an empty session.
  static void expect_the_same(const exec::NativeModel& model, std::size_t count) {
    for (const Tokens& more : {Tokens{}, Tokens{77}, Tokens(20, 99)}) {
      const Generated begun = generate(model, more, count);
      const Generated prefilled = generate(model, behind(more), count, {.begin = LLMC_BEGIN_EMPTY});
      EXPECT_EQ(begun.ids, prefilled.ids) << more.size();
      EXPECT_EQ(begun.logit_hash, prefilled.logit_hash) << more.size();
      EXPECT_EQ(begun.ids.size(), count);
    }
  }

  static testing::TemporaryFolder* folder_;
};
testing::TemporaryFolder* SystemPrompt::folder_ = nullptr;

#define LLMC_NEEDS_AVX2()                         \
  if (!target::runs_here(**target::find("avx2"))) \
  GTEST_SKIP() << "this processor lacks what avx2 needs"

TEST_F(SystemPrompt, SessionsGoOnAsIfTheyHadRunIt) {
  LLMC_NEEDS_AVX2();
  const auto model = load_bundle(bundle(options("avx2")));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->model().prompt_tokens, kSystemIds.size());
  expect_the_same(*model, 24);
  // Sequences of a session: one forked, rewound into the prompt and continued as it was.
  const auto session = model->start(2);
  ASSERT_TRUE(session.ok());
  exec::Session& s = **session;
  EXPECT_EQ(s.position(), kSystemIds.size());
  const auto fork = s.get<std::uint32_t>(&exec::Api::fork, 0);
  ASSERT_TRUE(fork.ok());
  ASSERT_TRUE(s.prefill(Tokens{5, 6}).ok());
  const auto logits = s.logits();
  const std::vector<float> expected(logits->begin(), logits->end());
  ASSERT_TRUE(s.call(&exec::Api::select, *fork).ok());
  for (const std::uint32_t kept : {36u, 32u, 20u, 0u}) {
    ASSERT_TRUE(s.call(&exec::Api::rewind, kept).ok());
    Tokens rest(kSystemIds.begin() + kept, kSystemIds.end());
    rest.insert(rest.end(), {5, 6});
    ASSERT_TRUE(s.prefill(rest).ok());
    const auto again = s.logits();
    EXPECT_TRUE(std::vector<float>(again->begin(), again->end()) == expected) << kept;
    ASSERT_TRUE(s.call(&exec::Api::reset).ok());
    EXPECT_EQ(s.position(), kSystemIds.size());
  }
  const json planned = plan(folder_->path() / "avx2");
  EXPECT_EQ(planned["prompt"]["ids"], json(kSystemIds));
  EXPECT_EQ(planned["prompt"]["blocks"], 3);
}

TEST_F(SystemPrompt, SavedStatesAreThoseOfAPrefill) {
  LLMC_NEEDS_AVX2();
  const fs::path folder = bundle(options("avx2"));
  const auto toolchain = driver::find_toolchain({});
  ASSERT_TRUE(toolchain.ok());
  const fs::path library = folder_->path() / "tinyfable.so";
  ASSERT_TRUE(
      driver::link_shared(*toolchain, **target::find("avx2"), folder / "libtinyfable.a", library)
          .ok());
  const auto loaded = hosted::ModelLibrary::open(library, "tinyfable");
  ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
  const hosted::LibraryApi& api = (*loaded)->api();
  llmc_config config = {};
  config.size = sizeof config;
  const auto begun = (*loaded)->start(config);
  config.begin = LLMC_BEGIN_EMPTY;
  const auto empty = (*loaded)->start(config);
  ASSERT_TRUE(begun.ok() && empty.ok());
  llmc_session* const a = (*begun)->handle();
  llmc_session* const b = (*empty)->handle();
  ASSERT_EQ(api.prefill(b, kSystemIds.data(), kSystemIds.size(), nullptr), LLMC_OK);
  const auto saved = [&](llmc_session* s) {
    std::vector<unsigned char> state(api.state_bytes(s));
    EXPECT_EQ(api.state_save(s, state.data(), state.size(), nullptr), LLMC_OK);
    return state;
  };
  const auto state = saved(a);
  EXPECT_TRUE(state == saved(b));
  const std::size_t all = api.free_blocks(a);
  ASSERT_EQ(api.append(a, 9), LLMC_OK);
  EXPECT_EQ(api.free_blocks(a), all - 1) << "the last block alone is copied";
  ASSERT_EQ(api.state_load(a, state.data(), state.size()), LLMC_OK);
  EXPECT_EQ(api.free_blocks(a), all - 3) << "a loaded state has blocks of its own";
  EXPECT_TRUE(saved(a) == state);
  ASSERT_EQ(api.reset(a), LLMC_OK);
  EXPECT_EQ(api.free_blocks(a), all);
  EXPECT_TRUE(saved(a) == state);
}

TEST_F(SystemPrompt, IsTheSameDataOnAnotherTargetAndIsRunThere) {
  LLMC_NEEDS_AVX2();
  const json here = plan(bundle(options("avx2")));
  const fs::path folder = bundle(options("lasx"));
  EXPECT_EQ(plan(folder)["prompt"], here["prompt"]);
  EXPECT_TRUE(here["prompt"].contains("xxh64"));
  const target::Target& target = **target::find("lasx");
  if (!executable(target)) LLMC_MISSING_CROSS(without_emulator(target));
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  const auto model = load_bundle(folder);
  ASSERT_NE(model, nullptr);
  const Generated there = generate(*model, {77}, 6);
  const Generated expected = generate(*load_bundle(bundle(options("avx2"))), {77}, 6);
  EXPECT_EQ(there.ids, expected.ids);
  EXPECT_EQ(there.logit_hash, expected.logit_hash);
}

TEST_F(SystemPrompt, GoesWithSmallCachesAndWeightsInAFile) {
  driver::CompileOptions options = this->options("generic");
  options.kv = {KvFormat::kInt8, KvFormat::kFp8};
  options.weights = driver::WeightsStorage::kFile;
  options.sequences = 1;
  options.opt_level = 1;
  const auto model = load_bundle(bundle(options));
  ASSERT_NE(model, nullptr);
  expect_the_same(*model, 6);
}

#ifdef LLMC_PROGRAM
TEST_F(SystemPrompt, CommandsUseIt) {
  const fs::path model = folder_->path() / "model", text = folder_->path() / "prompt.txt";
  fs::copy(tinyfable(), model, fs::copy_options::recursive);
  ASSERT_TRUE(write_file(model / "chat_template.jinja",
                         "{% for m in messages %}\n{{ bos_token if loop.first }}{{ m.role }}: {{ "
                         "m.content | trim }}\n{% endfor %}\n{% if add_generation_prompt %}\n"
                         "assistant:{% endif %}")
                  .ok());
  ASSERT_TRUE(write_file(text, "You are a kind fox who tells stories.\n").ok());
  const std::string with = (folder_->path() / "with").string(),
                    without = (folder_->path() / "without").string();
  const std::vector<std::string> compile = {"compile", model.string(),  "--target",
                                            "generic", "--opt-level=1", "--ctx",
                                            "512",     "--cflag=-O1",   "-q"};
  auto first = compile, second = compile;
  first.insert(first.end(), {"-o", with, "--system-prompt", text.string()});
  second.insert(second.end(), {"-o", without});
  for (const auto& arguments : {first, second}) {
    const ProgramRun made = llmc(arguments);
    ASSERT_EQ(made.code, 0) << made.err;
  }
  const json planned = json::parse(*read_file(fs::path(with) / "model.plan.json"));
  const std::size_t tokens = planned["prompt"]["tokens"];
  ASSERT_GT(tokens, 8u);

  const auto chat = [&](const std::string& bundle, std::vector<std::string> more) {
    std::vector<std::string> argv{
        "sh",         "-c",   "printf 'Hello.\\n/reset\\nHello.\\n' | exec \"$0\" chat \"$@\"",
        LLMC_PROGRAM, bundle, "--json",
        "--temp",     "0",    "-n",
        "12"};
    argv.insert(argv.end(), more.begin(), more.end());
    const auto ran = run_command(argv);
    EXPECT_TRUE(ran.ok() && ran->exit_code == 0);
    std::vector<json> lines;
    std::istringstream in(ran->standard_output);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  };
  const auto begun = chat(with, {});
  const auto said = chat(without, {"--system", "You are a kind fox who tells stories."});
  ASSERT_EQ(begun.size(), 2u);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(begun[0]["text"], said[0]["text"]);
  EXPECT_EQ(begun[0]["context_tokens"], said[0]["context_tokens"]);
  EXPECT_EQ(begun[0]["kept_tokens"], tokens);
  EXPECT_EQ(said[0]["kept_tokens"], 0);
  EXPECT_EQ(begun[1]["text"], begun[0]["text"]);
  EXPECT_EQ(begun[1]["kept_tokens"], tokens) << "there again after /reset";
  const auto other = chat(with, {"--system", "You are a sly fox."});
  EXPECT_EQ(other[0]["text"], chat(without, {"--system", "You are a sly fox."})[0]["text"]);

  // `run --chat` follows the compiled prompt, or another bundle's text from the beginning.
  const auto once = [&](const std::string& bundle) {
    const ProgramRun answer =
        llmc({"run", "--chat", bundle, "-p", "Hello.", "-n", "12", "--temp", "0", "--json"});
    EXPECT_EQ(answer.code, 0) << answer.err;
    return json::parse(last_line(answer.out));
  };
  EXPECT_EQ(once(with)["text"], begun[0]["text"]);
  EXPECT_EQ(once(with)["system_prompt_tokens"], tokens);
  EXPECT_EQ(once(without)["text"], chat(without, {})[0]["text"]);

  const ProgramRun ran = llmc({"run", with, "--ids", "77,78", "-n", "5", "--temp", "0", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::string all;
  for (const json& id : planned["prompt"]["ids"]) all += id.dump() + ",";
  const ProgramRun whole =
      llmc({"run", without, "--ids", all + "77,78", "-n", "5", "--temp", "0", "--json"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const json after = json::parse(last_line(ran.out)), alone = json::parse(last_line(whole.out));
  EXPECT_EQ(after["ids"], alone["ids"]);
  EXPECT_EQ(after["logits_hash"], alone["logits_hash"]);
  EXPECT_EQ(after["system_prompt_tokens"], tokens);
  EXPECT_EQ(llmc({"run", with, "-p", "", "-n", "3", "-q"}).code, 0) << "goes on from it";
  const ProgramRun bench = llmc({"bench", with, "-p", "8", "-n", "4", "-r", "1", "-t", "1"});
  EXPECT_EQ(bench.code, 0) << bench.err;
}

TEST_F(SystemPrompt, MistakesAreNamed) {
  const auto refused = [&](std::vector<std::string> more, int code, const char* message) {
    more.insert(more.begin(), {"plan", tinyfable().string(), "--target", "generic", "-c", "64"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, code) << more.back();
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  const std::string empty = (folder_->path() / "empty.txt").string();
  const std::string longer = (folder_->path() / "long.txt").string();
  const std::string ids = (folder_->path() / "ids.txt").string();
  ASSERT_TRUE(write_file(empty, std::string_view("\n")).ok());
  ASSERT_TRUE(write_file(longer, std::string(4000, 'x')).ok());
  ASSERT_TRUE(write_file(ids, std::string_view("1 2,\n3\n")).ok());
  refused({"--system-prompt", "no-such-file"}, 3, "no-such-file");
  refused({"--system-prompt", empty}, 3, "empty");
  refused({"--system-prompt", ""}, 2, "--system-prompt: is empty");
  refused({"--system-prompt", longer}, 3, "leaves no room in a context of 64");
  refused({"--system-prompt-tokens", "1,999999"}, 3, "token 999999");
  refused({"--system-prompt-tokens", "no-such-ids"}, 3, "no-such-ids");
  refused({"--system-prompt-tokens", longer}, 2, "is not a number from");
  refused({"--system-prompt-tokens", ""}, 2, "empty");
  refused({"--system-prompt-tokens", "1", "--system-prompt", empty}, 2, "--system-prompt");
  refused({"--system-prompt-tokens", "1,2", "--cache", "contiguous"}, 2, "contiguous");
  refused({"--system-prompt-tokens", "1,2", "--function"}, 2, "function");
  const ProgramRun planned =
      llmc({"plan", tinyfable().string(), "--target", "generic", "--system-prompt-tokens", ids});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("3 tokens in 1 block"));
  EXPECT_EQ(llmc({"plan", tinyfable().string(), "--system-prompt-tokens", "1", "--json"}).code, 0);
}
#endif

}  // namespace
}  // namespace llmc::tests
