#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/onnx/test_data.h"
#include "compiler/reference/tensor.h"

/// ONNX's own node tests (Debian package libonnx-testdata) on llmc.
namespace llmc::conformance {

struct NodeTest {
  std::string name;                 // "test_add"
  std::filesystem::path folder;     // model.onnx and test_data_set_0 …
  std::set<std::string> operators;  // of the graph's nodes; other domains as "domain.Name"
  std::string subject;  // the operator that an expanded test spells out in others; else the first
};

/// The folder of the node tests: LLMC_ONNX_TEST_DATA, or build/onnx-tests, fetched on first use.
/// nullopt with the reason in `why` when they cannot be had.
std::optional<std::filesystem::path> find_data(std::string& why);
/// "1.20.0-6" of data that were fetched; "" when not known.
std::string data_version(const std::filesystem::path& node_folder);

/// Operators that a test of the suite may use.
const std::set<std::string>& listed_operators();
/// The node tests that use listed operators only, sorted by name.
std::vector<NodeTest> select_tests(const std::filesystem::path& node_folder);

/// Result of one test. kRefused: an unsupported type or operator (kUnsupported).
enum class Verdict { kPassed, kRefused, kFailed };
struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::string why;
};

/// All messages, in one line.
std::string format_all(const Error& error);
/// What an error that ended a test makes of it.
Outcome stopped(const Error& error);

/// Imports, evaluates in the reference interpreter, compares; every data set.
Outcome run_in_interpreter(const NodeTest& test);

/// "" when equal within ONNX's tolerances (relative 1e-3, absolute 1e-7), else the first
/// difference. NaN equals NaN.
std::string difference(const reference::Tensor& actual, const ir::Constant& expected);

/// The table of docs/conformance.md.
std::string report(const std::string& version, const std::vector<NodeTest>& tests,
                   const std::map<std::string, Outcome>& outcomes);

}  // namespace llmc::conformance
