#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "passes/pipeline.h"
#include "tests/passes/evaluation.h"

/// The cases in tests/passes/cases/*.ir. A case is a graph before some passes and after them:
///
///   === case name
///   passes: fuse_rms_norm, …
///   --- before
///   graph …
///   --- after            (or --- unchanged, and nothing behind it)
///   graph …
///
/// Both graphs are also evaluated on the same inputs. `LLMC_UPDATE_CASES=1 llmc_tests_passes`
/// rewrites what stands behind `--- after`; read the difference before you commit it.
namespace llmc::passes {
namespace {

struct Case {
  std::string file, name, comment, before, after;
  std::vector<std::string> passes;
  bool unchanged = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.file << ": " << c.name;
}

std::filesystem::path cases_folder() {
  return std::filesystem::path(LLMC_SOURCE_DIR) / "tests/passes/cases";
}

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  std::string* section = nullptr;
  std::string line, comment;
  while (std::getline(file, line)) {
    if (line.starts_with("=== case ")) {
      cases.push_back({path.stem().string(), line.substr(9), comment, {}, {}, {}, false});
      comment.clear();
      section = nullptr;
    } else if (line.starts_with("passes: ")) {
      std::istringstream names(line.substr(8));
      for (std::string name; std::getline(names >> std::ws, name, ',');)
        cases.back().passes.push_back(name);
    } else if (line == "--- before") {
      section = &cases.back().before;
    } else if (line == "--- after") {
      section = &cases.back().after;
    } else if (line == "--- unchanged") {
      cases.back().unchanged = true;
      section = nullptr;
    } else if (section && !line.starts_with("#")) {
      if (!line.empty()) *section += line + '\n';
    } else if (!line.empty()) {
      comment += line + '\n';
      section = nullptr;
    }
  }
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(cases_folder()))
    if (entry.path().extension() == ".ir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files)
    for (Case& c : read_cases(file)) cases.push_back(std::move(c));
  return cases;
}

Result<ir::Graph> run(ir::Graph graph, const std::vector<std::string>& names) {
  std::vector<PassEntry> entries;
  for (const std::string& name : names) {
    const PassEntry* entry = find_pass(name);
    if (!entry) return Diagnostic{ErrorKind::kUsage, {}, {}, {}, "no pass called " + name, {}};
    entries.push_back(*entry);
  }
  PipelineOptions options;
  options.context.options.weights = ir::WeightFormat::kQ4;
  LLMC_TRY(auto result, run_passes(std::move(graph), entries, options));
  return std::move(result.graph);
}

class PassCases : public ::testing::TestWithParam<Case> {};

TEST_P(PassCases, BeforeBecomesAfterAndMeansTheSame) {
  const Case& c = GetParam();
  auto before = ir::parse(c.before);
  ASSERT_TRUE(before.ok()) << format(before.error().first());
  ASSERT_TRUE(ir::verify(*before).ok()) << format(ir::verify(*before).error().first());
  auto after = run(*before, c.passes);
  ASSERT_TRUE(after.ok()) << format(after.error().first());

  if (c.unchanged) {
    EXPECT_EQ(ir::print(*after), ir::print(*before));
  } else {
    auto expected = ir::parse(c.after);
    ASSERT_TRUE(expected.ok()) << format(expected.error().first());
    EXPECT_EQ(ir::print(*after), ir::print(*expected));
    EXPECT_NE(ir::print(*after), ir::print(*before)) << "say unchanged";
  }
  std::uint64_t seed = 1;
  for (const auto& [seq, past] : {std::pair(3, 2), std::pair(1, 4), std::pair(4, 0)})
    testing::expect_same_results(
        *before, *after, testing::make_inputs(*before, {{"seq", seq}, {"past", past}}, seed++),
        2e-5);
}

/// Rewrites the files' `--- after` sections with what the passes make now.
void update_cases() {
  std::map<std::string, std::vector<Case>> files;
  for (Case& c : all_cases()) files[c.file].push_back(std::move(c));
  for (auto& [file, cases] : files) {
    std::ostringstream text;
    for (const Case& c : cases) {
      text << c.comment << "=== case " << c.name << "\npasses: ";
      for (std::size_t i = 0; i < c.passes.size(); ++i) text << (i ? ", " : "") << c.passes[i];
      text << "\n--- before\n" << c.before;
      auto before = ir::parse(c.before);
      if (c.unchanged) {
        text << "--- unchanged\n\n";
      } else {
        text << "--- after\n";
        auto after = before.ok() ? run(*before, c.passes) : std::move(before);
        text << (after.ok() ? ir::print(*after) : c.after) << '\n';
      }
    }
    std::ofstream(cases_folder() / (file + ".ir")) << text.str();
  }
}

std::vector<Case> cases_for_tests() {
  if (std::getenv("LLMC_UPDATE_CASES")) update_cases();
  return all_cases();
}

INSTANTIATE_TEST_SUITE_P(All, PassCases, ::testing::ValuesIn(cases_for_tests()),
                         [](const auto& info) {
                           std::string name = info.param.file + "_" + info.param.name;
                           for (char& ch : name)
                             if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
                           return name;
                         });

TEST(PassCases, EveryPassHasChangedAndUnchangedCases) {
  std::map<std::string, std::pair<int, int>> seen;
  for (const Case& c : all_cases())
    for (const std::string& pass : c.passes) ++(c.unchanged ? seen[pass].second : seen[pass].first);
  for (const PassEntry& entry : registry()) {
    EXPECT_GT(seen[std::string(entry.name)].first, 0) << entry.name << " has no case that changes";
    EXPECT_GT(seen[std::string(entry.name)].second, 0) << entry.name << " has no unchanged case";
  }
}

}  // namespace
}  // namespace llmc::passes
