#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
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
///   --- after
///   graph …
///
/// Both graphs are also evaluated on the same inputs. `LLMC_UPDATE_CASES=1 llmc_tests_passes`
/// rewrites the graphs after `--- after`; check the difference before you commit it.
///
/// A case that must stay unchanged states the reason, and proves that nothing else prevents the
/// rewrite: with each `mend`, a replacement in the text of the graph, the passes do change it.
///
///   === case name
///   passes: fuse_rms_norm
///   reason: the mean is over the tokens
///   mend: axes = [0] => axes = [1]            (any number of them; \n is a line break)
///   --- before
///   graph …
///   --- unchanged
///
/// `quant: f32` after `passes` is the weight format instead of q4m.
namespace llmc::passes {
namespace {

struct Case {
  std::string file, name, comment, before, after, reason, quant;
  std::vector<std::string> passes, mends;
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
      cases.emplace_back();
      cases.back().file = path.stem().string();
      cases.back().name = line.substr(9);
      cases.back().comment = comment;
      comment.clear();
      section = nullptr;
    } else if (line.starts_with("passes: ")) {
      std::istringstream names(line.substr(8));
      for (std::string name; std::getline(names >> std::ws, name, ',');)
        cases.back().passes.push_back(name);
    } else if (line.starts_with("quant: ")) {
      cases.back().quant = line.substr(7);
    } else if (line.starts_with("reason: ")) {
      cases.back().reason = line.substr(8);
    } else if (line.starts_with("mend: ")) {
      cases.back().mends.push_back(line.substr(6));
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

Result<ir::Graph> run(ir::Graph graph, const Case& c) {
  std::vector<PassEntry> entries;
  for (const std::string& name : c.passes) {
    const PassEntry* entry = find_pass(name);
    if (!entry) return Diagnostic{ErrorKind::kUsage, {}, {}, {}, "no pass called " + name, {}};
    entries.push_back(*entry);
  }
  PipelineOptions options;
  options.context.options.weights =
      c.quant.empty() ? kQ4Mixed : parse_quant_scheme(c.quant).value();
  options.context.options.requantize = true;
  options.context.options.context = 8;
  LLMC_TRY(auto result, run_passes(std::move(graph), entries, options));
  return std::move(result.graph);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Returns the text of the graph with all mends applied. Fails the test if one does not apply.
std::string mended(const Case& c) {
  std::string text = c.before;
  for (std::string mend : c.mends) {
    replace_all(mend, "\\n", "\n");
    constexpr std::string_view kArrow = " =>";
    const auto arrow = mend.find(kArrow);
    const std::string from = mend.substr(0, arrow);
    if (arrow == std::string::npos || text.find(from) == std::string::npos) {
      ADD_FAILURE() << "nothing to mend: " << mend;
      continue;
    }
    const std::string to = mend.substr(arrow + kArrow.size());
    replace_all(text, from, to.empty() ? to : to.substr(1));
  }
  return text;
}

/// Expects that both graphs compute the same results for several numbers of tokens.
void expect_same_meaning(const ir::Graph& before, const ir::Graph& after) {
  constexpr double kTolerance = 2e-5;
  std::uint64_t seed = 1;
  for (const auto& [seq, past] : {std::pair(3, 2), std::pair(1, 4), std::pair(4, 0)}) {
    if (testing::have_same_inputs(before, after)) {
      const auto inputs = testing::make_inputs(before, {{"seq", seq}, {"past", past}}, seed++);
      testing::expect_same_results(before, after, inputs, kTolerance);
    } else {
      testing::expect_same_texts(before, after, seq, past, seed++, kTolerance);
    }
  }
}

/// Parses, verifies and rewrites `text`. Fails the test and returns nullopt on errors.
std::optional<std::pair<ir::Graph, ir::Graph>> before_and_after(const std::string& text,
                                                                const Case& c) {
  auto before = ir::parse(text);
  if (const auto status = before.ok() ? ir::verify(*before) : Status(before.error());
      !status.ok()) {
    ADD_FAILURE() << format(status.error().first());
    return std::nullopt;
  }
  auto after = run(*before, c);
  if (!after.ok()) {
    ADD_FAILURE() << format(after.error().first());
    return std::nullopt;
  }
  return std::pair(std::move(*before), std::move(*after));
}

/// Data of an expected graph that only passes compute.
ir::ConstantPtr mapped_zeros(ir::ElementType element, const std::vector<std::int64_t>& dims,
                             const std::string& name) {
  const auto data =
      std::make_shared<std::vector<std::byte>>(*ir::checked_byte_count(element, dims));
  return ir::make_mapped(element, dims, data, *data, name);
}

class PassCases : public ::testing::TestWithParam<Case> {};

TEST_P(PassCases, BeforeBecomesAfterAndMeansTheSame) {
  const Case& c = GetParam();
  const auto graphs = before_and_after(c.before, c);
  ASSERT_TRUE(graphs);
  const auto& [before, after] = *graphs;
  if (!c.unchanged) {
    EXPECT_TRUE(c.reason.empty() && c.mends.empty()) << "only for --- unchanged";
    ir::ParseOptions parsing;
    parsing.resolve = mapped_zeros;
    auto expected = ir::parse(c.after, parsing);
    ASSERT_TRUE(expected.ok()) << format(expected.error().first());
    EXPECT_EQ(ir::print(after), ir::print(*expected));
    EXPECT_NE(ir::print(after), ir::print(before)) << "say unchanged";
    expect_same_meaning(before, after);
    return;
  }
  EXPECT_EQ(ir::print(after), ir::print(before));
  EXPECT_FALSE(c.reason.empty()) << "say why the graph has to stay";
  ASSERT_FALSE(c.mends.empty()) << "show that the graph is a near miss";
  const auto near = before_and_after(mended(c), c);
  ASSERT_TRUE(near);
  EXPECT_NE(ir::print(near->second), ir::print(near->first)) << "something else prevents it, too";
  expect_same_meaning(near->first, near->second);
}

/// Replaces the `--- after` sections of the files by the current results of the passes.
void update_cases() {
  std::map<std::string, std::vector<Case>> files;
  for (Case& c : all_cases()) files[c.file].push_back(std::move(c));
  for (auto& [file, cases] : files) {
    std::ostringstream text;
    for (const Case& c : cases) {
      text << c.comment << "=== case " << c.name << "\npasses: ";
      for (std::size_t i = 0; i < c.passes.size(); ++i) text << (i ? ", " : "") << c.passes[i];
      if (!c.quant.empty()) text << "\nquant: " << c.quant;
      if (!c.reason.empty()) text << "\nreason: " << c.reason;
      for (const std::string& mend : c.mends) text << "\nmend: " << mend;
      text << "\n--- before\n" << c.before;
      auto before = ir::parse(c.before);
      if (c.unchanged) {
        text << "--- unchanged\n\n";
      } else {
        text << "--- after\n";
        auto after = before.ok() ? run(*before, c) : std::move(before);
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
