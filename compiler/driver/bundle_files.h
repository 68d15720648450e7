#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/parts.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/result.h"

/// Reads and checks the files of a bundle's folder.
namespace llmc::driver {

/// Returns NAME if `folder` is a bundle: it contains NAME.plan.json, NAME.h and libNAME.a. Returns
/// nullopt if it is not a bundle, or contains several plan.json files.
std::optional<std::string> bundle_name(const std::filesystem::path& folder);

/// Suffix of the file that caches compiled OpenCL kernels, NAME.opencl.bin. A run creates it if it
/// is missing.
inline constexpr std::string_view kKernelsSuffix = ".opencl.bin";

/// Returns whether `folder` appears to be a bundle, complete or damaged: it contains a
/// NAME.plan.json and no .onnx file.
bool looks_like_bundle(const std::filesystem::path& folder);

/// Returns the check that AtomicDirectory runs before it replaces a folder, so that llmc deletes
/// only its own output. The check rejects a folder that is or contains `model`, the model to
/// compile. It accepts an empty folder, and a bundle with no entries other than the files that its
/// plan.json lists, their folders, and compiled kernels. Otherwise its error names an entry that is
/// not listed.
AtomicDirectory::MayReplace replaces_bundle(const std::filesystem::path& model);

/// Fails with kBadInput if `folder`, the output folder of a bundle, is inside another bundle. That
/// one could not be replaced any more, because its plan.json does not list the files of the new
/// one.
Status check_outside_bundles(const std::filesystem::path& folder);

/// Writes src/build.sh and makes it executable for everyone who can read it. The folder src must
/// exist.
Status write_build_script(const std::filesystem::path& folder, const std::string& script);

/// Writes NAME.plan.json of a finished bundle: the JSON object `plan` with an additional member
/// "files", the list of the files in the folder. Returns that list.
Result<std::vector<std::string>> write_plan_file(const std::filesystem::path& folder,
                                                 const std::string& name, const std::string& plan);

/// Returns the text of NAME.plan.json, a JSON object, of the bundle of a model or a function. Fails
/// with kBadInput if the folder is not a bundle, or if NAME.h, libNAME.a or the JSON is missing or
/// damaged. Does not check the fields of the JSON.
Result<std::string> read_plan_file(const std::filesystem::path& folder);

/// An input of a media encoder. Open dims have their maximum sizes.
struct ImageInput {
  std::string name;
  ir::ElementType element = ir::ElementType::kF32;
  std::vector<std::int64_t> dims;
  std::uint64_t bytes = 0;
};

/// The fields of NAME.plan.json that are needed to load a bundle.
struct BundleFacts {
  std::string name, target;
  std::uint32_t opt_level = 0;
  std::uint32_t ctx = 0;       // context in tokens; 0: not recorded
  std::string tokenizer_file;  // may be empty
  /// Why the model's tokenizer was rejected; empty if it was not rejected.
  std::string tokenizer_refused;
  std::vector<std::int32_t> prompt;  // compiled-in prompt ids; empty without a prompt
  std::string calibration;           // calibration_key(); empty: none
  bool requantize = false;           // CompileOptions::requantize
  std::string quant;                 // CompileOptions::quant; empty in bundles of older versions
  KvFormats kv = {};
  std::string numerics;  // numerics version of the code (plan::kNumericsVersion)
  /// Golden hashes of the model for its formats, by key (golden.h).
  std::map<std::string, std::string> golden;
  std::uint64_t source_hash = 0;  // of a shard: PlanOptions::source_hash
  std::string device;             // the accelerator that it was compiled for; empty: none
  bool embed_weights = true;
  std::uint32_t shard = 0, shards = 0;  // plan::ShardOption
  std::uint32_t trained_ctx = 0;        // tokens that the model was trained for; 0: unknown
  std::uint64_t weights_bytes = 0, weights_per_token_bytes = 0;
  std::uint64_t parameters_per_token = 0;          // 0 in bundles of older versions
  std::uint64_t arena_bytes = 0, cache_bytes = 0;  // 0 in bundles of older versions
  std::uint64_t grammar_bytes = 0;                 // size of the tables of the compiled-in grammar
  std::uint64_t cache_token_bytes = 0;             // 0 in bundles of older versions
  plan::Rounding rounding;                         // empty in bundles of older versions
  std::vector<plan::Products> products;            // empty in bundles of older versions
  std::vector<plan::CacheReads> cache_reads;       // empty in bundles of older versions
  plan::SoundFeatures sound = {};                  // input of a sound encoder
  bool frames_first = false;                       // plan::frames_first
  std::vector<ImageInput> image_inputs;            // of the media encoder; empty: no encoder
  plan::Rounding image_rounding;                   // of the media encoder's weights
  plan::MediaInput media;
  bool image_open = false;  // whether the media encoder's inputs have open dims
};
/// Reads the facts of a decoder's bundle. Fails with kBadInput if the folder is not a bundle, or if
/// a file is missing, truncated or invalid ("damaged bundle: …"). Fails with kUnsupported for the
/// bundle of a function.
Result<BundleFacts> read_bundle(const std::filesystem::path& folder);

}  // namespace llmc::driver
