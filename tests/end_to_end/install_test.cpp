// What `cmake --install` puts in place is enough to compile a model and to embed it.
#ifdef LLMC_PROGRAM
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support/load.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

TEST(Install, HasAllThatEmbeddingNeeds) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path prefix = out.path() / "prefix";
  output_of({LLMC_CMAKE, "--install", LLMC_BINARY_DIR, "--prefix", prefix});
  const fs::path include = prefix / "include";
  for (const char* header : {"llmc.h", "hosted.h", "model.h", "arena.h"}) {
    EXPECT_TRUE(fs::exists(include / "llmc" / header)) << header;
  }
  fs::path hosted;
  for (const auto& entry : fs::recursive_directory_iterator(prefix)) {
    if (entry.path().filename() == "libllmc_hosted.a") hosted = entry.path();
  }
  ASSERT_FALSE(hosted.empty());
  EXPECT_TRUE(fs::exists(prefix / "bin/llmc-opt"));
  EXPECT_TRUE(fs::exists(prefix / "share/doc/llmc/README.md"));
  const std::string help = output_of({prefix / "bin/llmc", "--help"});
  const std::size_t page = help.find((prefix / "share/doc/llmc/docs/cli.md").string());
  EXPECT_NE(page, help.npos) << help;
  EXPECT_TRUE(fs::exists(prefix / "share/doc/llmc/docs/cli.md"));
  ASSERT_TRUE(write_file(out.path() / "bad.gbnf", std::string_view("root ::= (")).ok());
  const ProgramRun refused = llmc({"compile", model.path(), "--grammar", out.path() / "bad.gbnf"},
                                  {}, prefix / "bin/llmc");
  EXPECT_THAT(refused.err,
              ::testing::HasSubstr((prefix / "share/doc/llmc/docs/grammar.md").string()));

  // By the installed program alone, as it would be without this source tree.
  const fs::path bundle = out.path() / "bundle";
  output_of({prefix / "bin/llmc", "compile", model.path(), "--target=generic", "-q", "--cflag=-O0",
             "--name", "tiny", "-o", bundle});
  constexpr std::string_view kProgram = R"(
#include <stdio.h>
#include "llmc/hosted.h"
#include "tiny.h"
static unsigned char arena[TINY_ARENA_BYTES] __attribute__((aligned(LLMC_ALIGNMENT)));
int main(void) {
  llmc_pool* pool;
  llmc_session* session;
  llmc_config config = {0};
  int32_t prompt[] = {1, 2, 3}, token;
  config.size = sizeof config;
  if (llmc_pool_create(2, &pool) != LLMC_OK) return 1;
  config.threads = 2;
  config.parallel_for = llmc_pool_parallel_for;
  config.parallel_user = pool;
  if (tiny_init(&session, arena, sizeof arena, &config) != LLMC_OK) return 2;
  if (llmc_prefill(session, prompt, 3, NULL) != LLMC_OK) return 3;
  if (llmc_step(session, &token) != LLMC_OK) return 4;
  printf("%d\n", (int)token);
  return 0;
}
)";
  ASSERT_TRUE(write_file(out.path() / "app.c", kProgram).ok());
  std::vector<std::string> link{"clang-19",
                                "-I" + bundle.string(),
                                "-I" + include.string(),
                                out.path() / "app.c",
                                bundle / "libtiny.a",
                                hosted,
                                "-lstdc++",
                                "-lpthread",
                                "-ldl",
                                "-lm",
                                "-o",
                                out.path() / "app"};
  if (kAddressSanitizer) link.emplace_back("-fsanitize=address,undefined");
  output_of(link);
  EXPECT_FALSE(output_of({out.path() / "app"}).empty());
}

TEST(Install, DoesWithoutWhatTheQuickStartDoesNotBuild) {
  testing::TemporaryFolder out;
  const auto written = read_file(fs::path(LLMC_BINARY_DIR) / "cmake_install.cmake");
  ASSERT_TRUE(written.ok());
  const std::string program = std::string(LLMC_BINARY_DIR) + "/llmc-opt\"";
  std::string script = *written;
  ASSERT_NE(script.find(program), script.npos);
  for (std::size_t at = 0; (at = script.find(program, at)) != script.npos;)
    script.replace(at, program.size(), std::string(LLMC_BINARY_DIR) + "/not-built/llmc-opt\"");
  ASSERT_TRUE(write_file(out.path() / "install.cmake", script).ok());
  output_of({LLMC_CMAKE, "-DCMAKE_INSTALL_PREFIX=" + (out.path() / "prefix").string(), "-P",
             out.path() / "install.cmake"});
  EXPECT_TRUE(fs::exists(out.path() / "prefix/bin/llmc"));
  EXPECT_TRUE(fs::exists(out.path() / "prefix/include/llmc/llmc.h"));
}

}  // namespace
}  // namespace llmc::tests
#endif
