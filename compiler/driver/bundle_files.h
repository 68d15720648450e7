#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/parts.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/result.h"

/// What a bundle's folder looks like from outside.
namespace llmc::driver {

/// NAME of the bundle in `folder`: it holds NAME.plan.json, NAME.h and libNAME.a. nullopt when it
/// is no bundle, or holds two.
std::optional<std::string> bundle_name(const std::filesystem::path& folder);

/// Whether `folder` is meant to be a bundle, whole or damaged: it holds a NAME.plan.json and no
/// .onnx file.
bool looks_like_bundle(const std::filesystem::path& folder);

/// For AtomicDirectory: allows an empty folder, or a bundle without any file, folder or link, at
/// any depth, that its plan.json does not list, so that only llmc's own output is deleted. The
/// error names the first foreign entry, and says so when the folder is, or holds, the model to
/// compile.
AtomicDirectory::MayReplace replaces_bundle(const std::filesystem::path& model);

/// Writes src/build.sh, executable for everybody who may read it. The folder src must exist.
Status write_build_script(const std::filesystem::path& folder, const std::string& script);

/// Files below `folder`, relative to it, sorted.
Result<std::vector<std::string>> files_of(const std::filesystem::path& folder);

/// Writes NAME.plan.json of a finished bundle: `plan`, a JSON object, and in "files" what there is
/// in the folder. Returns that list.
Result<std::vector<std::string>> write_plan_file(const std::filesystem::path& folder,
                                                 const std::string& name, const std::string& plan);

/// The text of NAME.plan.json of a whole bundle, a model's or a function's: a JSON object.
/// kBadInput as read_bundle.
Result<std::string> read_plan_file(const std::filesystem::path& folder);

/// What NAME.plan.json says that loading needs.
struct BundleFacts {
  std::string name, target;
  std::uint32_t opt_level = 0;
  std::uint32_t ctx = 0;  // tokens of the context; 0: the plan does not say
  std::string tokenizer_file, tokenizer_kind, prompt_template;  // may be empty
  std::string tokenizer_refused;     // why the model's tokenizer is not here, if it had one
  std::vector<std::int32_t> prompt;  // ids that were compiled in, or none
  std::string quant;                 // CompileOptions::quant; empty: an older llmc did not say
  KvFormats kv = {};
  std::string numerics;  // version that the code keeps (plan::kNumericsVersion)
  std::map<std::string, std::string> golden;  // the model's hashes for these formats (golden.h)
  bool embed_weights = true;
  std::uint32_t trained_ctx = 0;  // tokens that the model was trained for; 0: unknown
  std::uint64_t weights_bytes = 0, weights_per_token_bytes = 0;
  std::uint64_t grammar_bytes = 0;       // tables of the grammar that was compiled in
  std::uint64_t cache_token_bytes = 0;   // 0 in bundles of an llmc that did not say
  plan::Rounding rounding;               // empty in bundles of an llmc that did not say
  std::vector<plan::Products> products;  // empty in bundles of an llmc that did not list them
};
/// kBadInput, "damaged bundle: …", when a file is missing, cut short or not what it should be; also
/// when the folder is no bundle.
Result<BundleFacts> read_bundle(const std::filesystem::path& folder);

}  // namespace llmc::driver
