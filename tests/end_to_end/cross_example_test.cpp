// Linux programs on other machines: docs/examples/embed, cross-compiled and emulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "compiler/evaluate/logits.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

struct Machine {
  const char* name;     // as cross.sh takes it
  const char* sysroot;  // in the cross folder
  const char* triple;
  const char* qemu;
  const char* cpu;

  friend void PrintTo(const Machine& c, std::ostream* out) { *out << c.name; }
};

// Logits of a prompt and some greedy steps, as they lie in memory.
constexpr const char* kLogits = R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "llmc/hosted.h"
#include "tinyfable.h"
static _Alignas(64) unsigned char arena[TINYFABLE_ARENA_BYTES];
int main(int argc, char** argv) {
  static const int32_t prompt[] = {1, 765, 894, 261, 482};
  llmc_session* session;
  llmc_config config;
  llmc_pool* pool;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
  if (llmc_pool_create(config.threads, &pool) != LLMC_OK) return 1;
  config.parallel_for = llmc_pool_parallel_for;
  config.parallel_user = pool;
  if (tinyfable_init(&session, arena, sizeof arena, &config) != LLMC_OK) return 2;
  if (llmc_prefill(session, prompt, 5, NULL) != LLMC_OK) return 3;
  for (int i = 0; i < STEPS; ++i) {
    int32_t token;
    fwrite(llmc_logits(session), sizeof(float), TINYFABLE_VOCAB, stdout);
    if (llmc_step(session, &token) != LLMC_OK) return 4;
  }
  llmc_pool_destroy(pool);
  return fflush(stdout) != 0;
}
)";
constexpr int kSteps = 6;
const std::vector<std::int32_t> kPromptIds{1, 765, 894, 261, 482};  // "Once upon a time"

class CrossExample : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    sysroot_ = cross_folder() / GetParam().sysroot;
    qemu_ = cross_folder() / "bin" / GetParam().qemu;
    if (!fs::exists(qemu_) || !fs::exists(sysroot_ / "usr" / GetParam().triple)) {
      LLMC_MISSING_CROSS("no emulator or libraries for " << GetParam().name << " in "
                                                         << cross_folder());
    }
  }

  std::string emulate(std::vector<std::string> argv) const {
    const std::string libraries = (sysroot_ / "usr" / GetParam().triple).string();
    argv.insert(argv.begin(), {qemu_.string(), "-cpu", GetParam().cpu, "-L", libraries});
    return output_of(argv);
  }

  fs::path sysroot_, qemu_;
  testing::TemporaryFolder folder_;
};

TEST_P(CrossExample, GivesTheTextAndTheBitsOfTheHostOnAnyNumberOfThreads) {
  const std::string out = folder_.path().string();
  output_of({"env", "LLMC=" LLMC_PROGRAM, "LLMC_CROSS_DIR=" + cross_folder().string(),
             "CXXFLAGS=-O0", "JOINED=1", "sh", LLMC_SOURCE_DIR "/docs/examples/embed/cross.sh",
             GetParam().name, out});

  auto options = options_for(tinyfable(), "generic", passes::kQ4Mixed);
  const auto host = load(options);
  ASSERT_NE(host, nullptr);
  std::string ids;
  for (const std::int32_t id : generate(*host, kPromptIds, 10).ids)
    ids += std::to_string(id) + "\n";
  std::vector<std::string> embed{out + "/embed", "10"};
  for (const std::int32_t id : kPromptIds) embed.push_back(std::to_string(id));
  EXPECT_EQ(emulate(embed), ids);

  const std::string text =
      output_of({LLMC_PROGRAM, "run", tinyfable().string(), "-p", "Once upon a time", "-n", "20",
                 "--temp", "0", "-q", "--target", "generic", "--cflag=-O0"});
  EXPECT_EQ(emulate({out + "/embed_threads", (tinyfable() / "tokenizer.txt").string(), "20",
                     "Once upon a time"}),
            text);

  ASSERT_TRUE(write_file(folder_.path() / "logits.c", std::string_view(kLogits)).ok());
  output_of({"clang-19",
             std::string("--target=") + GetParam().triple,
             "--sysroot=" + sysroot_.string(),
             "--gcc-toolchain=" + (sysroot_ / "usr").string(),
             "-fuse-ld=lld",
             "-std=c11",
             "-O1",
             "-Wall",
             "-Werror",
             "-DSTEPS=" + std::to_string(kSteps),
             "-I" + out + "/bundle",
             "-I" LLMC_SOURCE_DIR "/runtime/include",
             out + "/logits.c",
             out + "/bundle/libtinyfable.a",
             out + "/libllmc_hosted.a",
             "-lstdc++",
             "-lpthread",
             "-ldl",
             "-lm",
             "-o",
             out + "/logits"});
  const std::string expected = generate(*host, kPromptIds, kSteps).logit_hash;
  for (const char* threads : {"1", "2", "4"}) {
    const std::string bytes = emulate({out + "/logits", threads});
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
    evaluate::LogitHash hash;
    const std::size_t vocabulary = floats.size() / kSteps;
    for (int i = 0; i < kSteps; ++i) {
      hash.add(std::span(floats).subspan(i * vocabulary, vocabulary));
    }
    EXPECT_EQ(hash.text(), expected) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machines, CrossExample,
    ::testing::Values(Machine{"arm64", "arm64", "aarch64-linux-gnu", "qemu-aarch64", "cortex-a76"},
                      Machine{"loongarch64", "loong64", "loongarch64-linux-gnu", "qemu-loongarch64",
                              "la464"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace llmc::tests
#endif
