// The bundle as a thing on disk: the same bytes every time, whole or not at all, and good for
// programs that know nothing of llmc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "compiler/driver/bundle_files.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "compiler/target/target.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    auto text = read_file(entry.path());
    EXPECT_TRUE(text.ok());
    files[entry.path().lexically_relative(folder)] = *std::move(text);
  }
  return files;
}

void expect_compiles(const driver::CompileOptions& options) {
  const auto bundle = driver::compile_model(options);
  if (!bundle.ok()) expect_ok(bundle.error());
}

driver::CompileOptions with_prompt(driver::CompileOptions options) {
  options.system_prompt = {.text = {}, .ids = {1, 2, 3}, .source = {}};
  return options;
}

/// Compiling twice runs the compiler twice, even if it is wrapped by ccache.
class BundleTwice : public ::testing::Test {
 protected:
  void SetUp() override { setenv("CCACHE_DISABLE", "1", 1); }
  void TearDown() override { unsetenv("CCACHE_DISABLE"); }
};

TEST_F(BundleTwice, GivesTheSameBytes) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  expect_compiles(with_prompt(quick(model.path(), out.path() / "a")));
  auto again = with_prompt(quick(model.path(), out.path() / "deeper/b"));
  expect_compiles(again);
  const auto a = contents(out.path() / "a");
  const auto b = contents(out.path() / "deeper/b");
  ASSERT_FALSE(a.empty());
  for (const auto& [path, text] : a) {
    ASSERT_TRUE(b.contains(path)) << path;
    EXPECT_TRUE(b.at(path) == text) << path;
    EXPECT_EQ(text.find(out.path().string()), std::string::npos) << path << " names a build folder";
  }
  EXPECT_EQ(a.size(), b.size());
}

TEST_F(BundleTwice, BuildsAgainFromItsOwnSources) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path folder = out.path() / "bundle";
  expect_compiles(with_prompt(quick(model.path(), folder)));
  const auto before = contents(folder);
  output_of({"sh", (folder / "src/build.sh").string()}, out.path());
  EXPECT_TRUE(contents(folder) == before);
}

TEST(Bundle, OfAnotherCompilerSaysTheSame) {
  const fs::path gnu = find_program("g++").empty() ? find_program("g++-12") : find_program("g++");
  if (gnu.empty()) GTEST_SKIP() << "g++ is not here";
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path folder = out.path() / "bundle";
  expect_compiles(quick(model.path(), folder));
  driver::CompileOptions bundle;
  bundle.model = folder;
  const auto before = exec::load_native({.compile = bundle});
  ASSERT_TRUE(before.ok()) << format(before.error().first());
  const auto library = read_file(folder / "libtiny_model.a");
  output_of({"env", "CC=" + gnu.string(), "CFLAGS=-DUNUSED", "AR=ar", "sh",
             (folder / "src/build.sh").string()});
  EXPECT_NE(*read_file(folder / "libtiny_model.a"), *library);
  const auto after = exec::load_native({.compile = bundle});
  ASSERT_TRUE(after.ok()) << format(after.error().first());
  EXPECT_EQ(generate(**after, {1, 2, 3}, 8).logit_hash,
            generate(**before, {1, 2, 3}, 8).logit_hash);
}

#ifdef LLMC_PROGRAM
/// The file has the header that decoders' files have; the pool is the application's.
TEST(Bundle, OfAFunctionTakesAFileOfWeightsAndThreads) {
  testing::TemporaryFolder out;
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{70}, std::int64_t{64}});
  b.node("MatMul", {"x", b.floats("w", {64, 96}, std::vector<float>(64 * 96, 0.37F))}, {}, "y");
  b.float_output("y", {std::int64_t{70}, std::int64_t{96}});
  b.save(out.path() / "f/model.onnx");
  ASSERT_TRUE(write_file(out.path() / "run.c", std::string_view(R"(
#include <stdio.h>
#include <string.h>
#include "f.h"
static void in_order(void* user, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {
  ++*(int*)user;
  for (uint32_t i = n; i-- > 0;) fn(arg, i);
}
_Alignas(64) static unsigned char arena[F_ARENA_BYTES], weights[F_WEIGHTS_BYTES];
static float x[70 * 64], y[2][70 * 96];
int main(int count, char** arguments) {
  int calls = 0;
  FILE* file = fopen(arguments[count - 1], "rb");
  if (!file || fread(weights, 1, sizeof weights, file) != sizeof weights || fgetc(file) != EOF)
    return 10;
  for (int i = 0; i < 70 * 64; ++i) x[i] = (float)(i % 17) - 8;
  const void* inputs[] = {x, weights};
  void* outputs[] = {y[0]};
  llmc_run_options options = {sizeof options};
  if (f_run(inputs, outputs, arena) != 0) return 11;
  outputs[0] = y[1];
  options.threads = 3;
  options.parallel_for = in_order;
  options.parallel_user = &calls;
  if (f_run_with(inputs, outputs, arena, &options) != 0 || calls == 0) return 12;
  if (memcmp(y[0], y[1], sizeof y[0]) != 0) return 13;
  options.threads = F_THREADS_MAX + 1;
  if (f_run_with(inputs, outputs, arena, &options) != 3) return 14;
  weights[16] ^= 1;  /* the hash in the header */
  return f_run(inputs, outputs, arena) == 4 ? 0 : 15;
}
)"))
                  .ok());
  const fs::path folder = out.path() / "bundle";
  const ProgramRun compiled =
      llmc({"compile", (out.path() / "f").string(), "--name=f", "--quant=q8", "--weights=file",
            "--threads-max=4", "-o", folder.string()});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  output_of({find_program("clang-19").empty() ? "cc" : "clang-19", (out.path() / "run.c").string(),
             "-I" + folder.string(), (folder / "libf.a").string(), "-o",
             (out.path() / "run").string()});
  output_of({(out.path() / "run").string(), (folder / "f.weights.bin").string()});
}

/// The rows of a call are the same whatever their number.
TEST(Bundle, OfAFunctionOfOpenSizesTakesThemWithEachCall) {
  testing::TemporaryFolder out;
  testing::OnnxBuilder b(17);
  b.float_input("x", {"row count", std::int64_t{64}});
  b.node("MatMul", {"x", b.floats("w", {64, 96}, std::vector<float>(64 * 96, 0.37F))}, {}, "h");
  b.node("Exp", {"h"}, {}, "y");
  b.float_output("y", {"row count", std::int64_t{96}});
  b.save(out.path() / "f/model.onnx");
  ASSERT_TRUE(write_file(out.path() / "run.c", std::string_view(R"(
#include <string.h>
#include "f.h"
_Alignas(64) static unsigned char arena[F_ARENA_BYTES];
static float x[F_INPUT_0_BYTES / 4], all[F_OUTPUT_0_BYTES / 4], some[F_OUTPUT_0_BYTES / 4];
int main(void) {
  if (F_DIMS != 1 || F_DIM_ROW_COUNT != 0 || F_DIM_0_MIN != 1 || F_DIM_0_MAX != 40) return 10;
  if (strcmp(F_DIM_0_NAME, "row count") != 0) return 11;
  for (int i = 0; i < 40 * 64; ++i) x[i] = (float)(i % 17) / 64;
  const void* inputs[] = {x};
  void* outputs[] = {all};
  if (f_run(inputs, outputs, arena) != 0) return 12;
  outputs[0] = some;
  int64_t rows[F_DIMS];
  llmc_run_options options = {sizeof options};
  options.dims = rows;
  for (rows[0] = 1; rows[0] <= 40; ++rows[0]) {
    const size_t bytes = (size_t)rows[0] * 96 * 4;
    memset(some, 0x5a, sizeof some);
    if (f_run_with(inputs, outputs, arena, &options) != 0) return 13;
    if (memcmp(all, some, bytes) != 0) return 14;
    for (size_t i = bytes; i < sizeof some; ++i)
      if (((unsigned char*)some)[i] != 0x5a) return 15;
  }
  rows[0] = 0;
  if (f_run_with(inputs, outputs, arena, &options) != 3) return 16;
  rows[0] = 41;
  return f_run_with(inputs, outputs, arena, &options) == 3 ? 0 : 17;
}
)"))
                  .ok());
  const fs::path folder = out.path() / "bundle";
  const ProgramRun compiled = llmc({"compile", (out.path() / "f").string(), "--name=f", "--dim",
                                    "row count=1..40", "-o", folder.string()});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_THAT(compiled.err, HasSubstr("1..40  row count"));
  output_of({find_program("clang-19").empty() ? "cc" : "clang-19", (out.path() / "run.c").string(),
             "-I" + folder.string(), (folder / "libf.a").string(), "-o",
             (out.path() / "run").string()});
  output_of({(out.path() / "run").string()});
}

TEST(Bundle, OfAFunctionByAnotherCompilerSaysTheSame) {
  const fs::path gnu = find_program("g++").empty() ? find_program("g++-12") : find_program("g++");
  if (gnu.empty()) GTEST_SKIP() << "g++ is not here";
  testing::TemporaryFolder out;
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{2}, std::int64_t{3}});
  const std::string product =
      b.node("MatMul", {"x", b.floats("w", {3, 3}, std::vector<float>(9, 0.37F))});
  const std::string sum = b.node("Add", {product, "x"});
  b.node("Tanh", {b.node("Softmax", {sum})}, {}, "y");
  b.float_output("y", {std::int64_t{2}, std::int64_t{3}});
  b.save(out.path() / "f/model.onnx");
  const fs::path program = out.path() / "run.cpp";
  ASSERT_TRUE(write_file(program, std::string_view(R"(
#include <stdio.h>
#include "f.h"
int main() {
  alignas(64) static unsigned char arena[1 << 16];
  const float x[6] = {0.1f, -2.5f, 3.3f, 1.0f, 0.0f, 7.7f};
  unsigned y[6] = {};
  const void* inputs[] = {x};
  void* outputs[] = {y};
  if (f_run(inputs, outputs, arena) != 0) return 1;
  for (unsigned bits : y) printf("%08x\n", bits);
}
)"))
                  .ok());
  for (const char* name : {"generic", "avx2"}) {
    if (!target::runs_here(**target::find(name))) continue;
    const fs::path folder = out.path() / name;
    const ProgramRun compiled = llmc({"compile", (out.path() / "f").string(), "--name=f",
                                      std::string("--target=") + name, "-o", folder.string()});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    const auto says = [&] {
      output_of({gnu.string(), program.string(), "-I" + folder.string(),
                 (folder / "libf.a").string(), "-o", (out.path() / "run").string()});
      return output_of({(out.path() / "run").string()});
    };
    const std::string before = says();
    const auto library = read_file(folder / "libf.a");
    output_of({"env", "CC=" + gnu.string(), "AR=ar", (folder / "src/build.sh").string()});
    EXPECT_NE(*read_file(folder / "libf.a"), *library);
    EXPECT_EQ(std::ranges::count(before, '\n'), 6);
    EXPECT_EQ(says(), before) << name;
  }
}
#endif

TEST(Bundle, TakesThePlaceOfAnEarlierOneOnly) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path folder = out.path() / "bundle";
  expect_compiles(quick(model.path(), folder));
  auto second = quick(model.path(), folder);
  second.name = "other";
  expect_compiles(second);
  EXPECT_TRUE(fs::exists(folder / "libother.a"));
  EXPECT_FALSE(fs::exists(folder / "other.plan.json.tmp"));
  EXPECT_EQ(driver::bundle_name(folder), "other");
  for (const fs::path& mine : {folder / "notes.txt", folder / "src/my_notes.cpp"}) {
    ASSERT_TRUE(write_file(mine, std::string_view("mine")).ok());
    const auto refused = driver::compile_model(second);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().first().kind, ErrorKind::kBadInput);
    EXPECT_TRUE(fs::exists(mine));
    fs::remove(mine);
  }
  expect_compiles(second);
}

TEST(Bundle, LibraryNeedsFourFunctionsAndNothingElse) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  std::set<std::string_view> triples;
  for (const target::Target& row : target::all()) {
    const std::string target(row.name);
    auto options = quick(model.path(), out.path() / target);
    options.target = target;
    options.name = "tiny";
    // As users compile it, once for each architecture: -O0 might call for what is inline otherwise.
    options.cflags = triples.insert(row.triple).second ? std::vector<std::string>{}
                                                       : std::vector<std::string>{"-O1"};
    expect_compiles(options);
    const fs::path archive = out.path() / target / "libtiny.a";
    std::set<std::string> defined, undefined;
    std::istringstream lines(output_of({"llvm-nm-19", "-P", "-g", archive.string()}));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string name, type;
      if (!(fields >> name >> type)) continue;
      (type == "U" ? undefined : defined).insert(name);
    }
    EXPECT_TRUE(defined.contains("tiny_init"));
    for (const std::string& name : undefined) {
      const bool known = defined.contains(name) || name == "memcpy" || name == "memset" ||
                         name == "memmove" || name == "memcmp";
      EXPECT_TRUE(known) << name << " on " << target;
    }
  }
}

constexpr const char* kTwoModels = R"(
#include <stdio.h>
#include "one.h"
#include "two.h"
static _Alignas(64) unsigned char first[ONE_ARENA_BYTES], second[TWO_ARENA_BYTES];
static int output_of(llmc_session* s) {
  int32_t prompt[] = {3, 1, 4, 1, 5}, token;
  if (llmc_prefill(s, prompt, 5, NULL) != LLMC_OK) return 1;
  for (int i = 0; i < 6; ++i) {
    if (llmc_step(s, &token) != LLMC_OK) return 1;
    printf("%d ", (int)token);
  }
  printf("\n");
  return 0;
}
int main(void) {
  llmc_session *a, *b;
  if (one_init(&a, first, sizeof first, NULL) != LLMC_OK) return 1;
  if (two_init(&b, second, sizeof second, NULL) != LLMC_OK) return 2;
  return output_of(a) || output_of(b) || output_of(a);
}
)";

TEST(Bundle, TwoModelsLinkIntoOneProgram) {
  if (!target::runs_here(**target::find("avx2"))) GTEST_SKIP() << "this machine has no AVX2";
  const ModelFolder first;
  const ModelFolder second({.layers = 1, .vocabulary = 290, .seed = 9});
  testing::TemporaryFolder out;
  auto one = quick(first.path(), out.path() / "one");
  one.name = "one";
  auto two = quick(second.path(), out.path() / "two");
  two.name = "two";
  two.target = "avx2";
  expect_compiles(one);
  expect_compiles(two);
  ASSERT_TRUE(write_file(out.path() / "main.c", std::string_view(kTwoModels)).ok());
  output_of({"clang-19", "-std=c11", "-Wall", "-Werror", "-Ione", "-Itwo", "main.c", "one/libone.a",
             "two/libtwo.a", "-o", "both"},
            out.path());
  std::istringstream lines(output_of({(out.path() / "both").string()}));
  std::string a, b, c;
  std::getline(lines, a);
  std::getline(lines, b);
  std::getline(lines, c);
  const auto text = [](const Generated& g) {
    std::string line;
    for (const std::int32_t id : g.ids) line += std::to_string(id) + " ";
    return line;
  };
  const auto expected = [&](const driver::CompileOptions& options) {
    const auto model = exec::load_native({.compile = options});
    return text(generate(**model, {3, 1, 4, 1, 5}, 6));
  };
  EXPECT_EQ(a, expected(one));
  EXPECT_EQ(b, expected(two));
  EXPECT_NE(a, b);
}

TEST(Bundle, TheExampleInCRunsWithAndWithoutACLibrary) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  auto options = quick(model.path(), out.path() / "bundle");
  options.name = "tiny";
  expect_compiles(options);
  const fs::path script = fs::path(LLMC_SOURCE_DIR) / "docs/examples/embed/build.sh";
  output_of({"env", "CC=clang-19", "sh", script.string(), (out.path() / "bundle").string(),
             (out.path() / "bin").string()});
  const auto native = exec::load_native({.compile = options});
  ASSERT_TRUE(native.ok());
  std::string expected;
  for (const std::int32_t id : generate(**native, {7, 8, 9}, 10).ids) {
    expected += std::to_string(id) + "\n";
  }
  for (const char* program : {"embed", "embed_nostdlib"}) {
    EXPECT_EQ(output_of({(out.path() / "bin" / program).string(), "10", "7", "8", "9"}), expected)
        << program;
  }
}

TEST(Bundle, TheProgramOfTheReadmeRuns) {
  const auto readme = read_file(fs::path(LLMC_SOURCE_DIR) / "README.md");
  ASSERT_TRUE(readme.ok());
  const std::size_t begin = readme->find("/* app.c: "), end = readme->find("```", begin);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  const testing::TemporaryFolder out;
  auto options = options_for(tinyfable(), "generic", ir::WeightFormat::kF32);
  options.out_dir = out.path() / "bundle";
  expect_compiles(options);
  ASSERT_TRUE(write_file(out.path() / "app.c", readme->substr(begin, end - begin)).ok());
  output_of(
      {"clang-19", "-Wall", "-Werror", "-Ibundle", "app.c", "bundle/libtinyfable.a", "-o", "app"},
      out.path());
  const auto native = exec::load_native({.compile = options});
  ASSERT_TRUE(native.ok());
  std::string expected;
  for (const std::int32_t id : generate(**native, {1, 765, 894, 261, 482}, 48).ids)
    expected += std::to_string(id) + "\n";
  EXPECT_EQ(output_of({(out.path() / "app").string()}), expected);
}

TEST(Bundle, WeightsInAFileGiveTheSameBits) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  auto options = quick(model.path(), out.path() / "embed");
  expect_compiles(options);
  options.out_dir = out.path() / "file";
  options.weights = driver::WeightsStorage::kFile;
  expect_compiles(options);
  EXPECT_TRUE(fs::exists(out.path() / "file/tiny_model.weights.bin"));
  std::vector<Generated> runs;
  for (const char* folder : {"embed", "file"}) {
    driver::CompileOptions bundle;
    bundle.model = out.path() / folder;
    const auto native = exec::load_native({.compile = bundle});
    ASSERT_TRUE(native.ok()) << format(native.error().first());
    runs.push_back(generate(**native, {1, 2, 3}, 8));
  }
  EXPECT_EQ(runs[0].ids, runs[1].ids);
  EXPECT_EQ(runs[0].logit_hash, runs[1].logit_hash);
}

}  // namespace
}  // namespace llmc::tests
