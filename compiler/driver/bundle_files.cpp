#include "compiler/driver/bundle_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "compiler/driver/archive.h"
#include "compiler/emit/names.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "compiler/target/target.h"
#include "runtime/hosted/audio/wav.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPlanSuffix = ".plan.json";
constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{64} << 20;

/// Returns NAME for each file NAME.plan.json in `folder`.
std::vector<std::string> planned_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.ends_with(kPlanSuffix))
      names.push_back(file.substr(0, file.size() - kPlanSuffix.size()));
  }
  return names;
}

/// Reads the member "resize" of a plan.json. Returns an unknown resize if a value is out of range.
/// Throws the exceptions of nlohmann::json.
plan::ImageResize resize_from(const nlohmann::json& json) {
  using plan::ImageResize;
  ImageResize resize;
  resize.unknown_key = json.value("unknown", std::string());
  const std::string fit = json.value("fit", std::string());
  if (fit.empty()) return resize;
  resize.fit = fit == "exact" ? ImageResize::Fit::kExact : ImageResize::Fit::kShortestEdge;
  bool valid = true;
  const auto number = [&](const char* name, int least, int most) {
    const auto value = json.at(name).get<std::int64_t>();
    valid = valid && value >= least && value <= most;
    return static_cast<int>(value);
  };
  resize.width = number("width", 1, ImageResize::kMaxSide);
  resize.height = number("height", 1, ImageResize::kMaxSide);
  resize.filter = number("filter", 0, ImageResize::kFilters - 1);
  resize.crop_width = number("crop_width", 0, ImageResize::kMaxSide);
  resize.crop_height = number("crop_height", 0, ImageResize::kMaxSide);
  valid = valid && (resize.crop_width == 0) == (resize.crop_height == 0);
  return valid ? resize : ImageResize();
}

/// Reads how features are computed from sound. Throws the exceptions of nlohmann::json.
plan::SoundFeatures sound_from(const nlohmann::json& json) {
  return {.rate = json.at("rate").get<std::uint32_t>(),
          .normalized = json.at("normalized").get<bool>(),
          .mels = json.at("mels").get<std::uint32_t>()};
}

/// Reads the member "rounding" of a plan.json. Throws the exceptions of nlohmann::json.
plan::Rounding rounding_from(const nlohmann::json& json) {
  plan::Rounding rounding;
  for (const auto& name : json.at("formats")) {
    if (const auto format = plan::parse_weight_format(name.get<std::string>()))
      rounding.formats.push_back(*format);
  }
  rounding.rounded = json.at("rounded").get<std::size_t>();
  rounding.kept = json.at("kept").get<std::size_t>();
  rounding.requantized = json.value("requantized", std::size_t{0});
  rounding.rounds_activations = json.at("activations").get<bool>();
  return rounding;
}

Diagnostic bad_bundle(const fs::path& folder, std::string message) {
  return {.kind = ErrorKind::kBadInput,
          .file = folder.string(),
          .message = std::move(message),
          .hint = "compile the model again"};
}

/// Returns the regular files of a folder and its subfolders, sorted, as paths relative to the
/// folder.
Result<std::vector<std::string>> files_of(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (fs::is_regular_file(it->symlink_status(error)))
      files.push_back(it->path().lexically_relative(folder).string());
  }
  if (error) return system_error(folder, "read", error.value());
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::optional<std::string> bundle_name(const fs::path& folder) {
  const std::vector<std::string> names = planned_names(folder);
  if (names.size() != 1 || !emit::check_name(names[0]).ok()) return std::nullopt;
  std::error_code error;
  const bool whole = fs::is_regular_file(folder / (names[0] + ".h"), error) &&
                     fs::is_regular_file(folder / ("lib" + names[0] + ".a"), error);
  return whole ? std::optional(names[0]) : std::nullopt;
}

namespace {

/// Returns the first entry in `folder`, relative to it, that its plan.json does not list. If the
/// folder is not a bundle, returns any entry.
std::optional<fs::path> first_foreign(const fs::path& folder, std::error_code& error) {
  std::set<fs::path> files, folders;
  nlohmann::json json;
  if (const auto name = bundle_name(folder)) {
    const std::string kernels = *name + std::string(kKernelsSuffix);
    files.insert({kernels, kernels + ".tmp"});
    const auto text = read_file(folder / (*name + std::string(kPlanSuffix)), kMaxPlanBytes);
    if (text.ok()) json = nlohmann::json::parse(*text, nullptr, false);
  }
  if (json.is_object() && json.contains("files") && json["files"].is_array()) {
    for (const auto& entry : json["files"]) {
      if (!entry.is_string()) continue;
      const fs::path file = entry.get<std::string>();
      files.insert(file);
      for (fs::path up = file.parent_path(); !up.empty() && folders.insert(up).second;)
        up = up.parent_path();
    }
  }
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path relative = it->path().lexically_relative(folder);
    const fs::file_status status = it->symlink_status(error);
    const bool known = fs::is_directory(status)
                           ? folders.contains(relative)
                           : fs::is_regular_file(status) && files.contains(relative);
    if (!known) return relative;
  }
  return std::nullopt;
}

}  // namespace

bool looks_like_bundle(const fs::path& folder) {
  if (planned_names(folder).empty()) return false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".onnx") return false;
  }
  return !error;
}

AtomicDirectory::MayReplace replaces_bundle(const fs::path& model) {
  return [model](const fs::path& folder) -> Status {
    std::error_code error;
    const fs::path from = fs::weakly_canonical(model, error), to = fs::canonical(folder, error);
    if (!error && std::ranges::mismatch(to, from).in1 == to.end())
      return failure(ErrorKind::kBadInput,
                     from == to ? "the output folder is the model itself"
                                : "the output folder holds the model that is compiled",
                     "name another folder for the bundle");
    const auto foreign = first_foreign(folder, error);
    if (error) return system_error(folder, "read", error.value());
    if (!foreign) return ok_status();
    return failure(
        ErrorKind::kBadInput,
        "the output folder exists and holds something else: " + printable(foreign->string(), 200),
        "name an empty or a new folder, or remove what is not the bundle's");
  };
}

Status check_outside_bundles(const fs::path& folder) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(fs::absolute(folder, error), error);
  if (error) return system_error(folder, "resolve the output path", error.value());
  // "dir/" means "dir".
  fs::path inside = target.has_filename() ? target : target.parent_path();
  while (inside.has_relative_path()) {
    inside = inside.parent_path();
    if (bundle_name(inside))
      return file_failure(ErrorKind::kBadInput, folder.string(),
                          "the output folder is inside the bundle " + printable(inside.string()),
                          "give a folder outside of it");
  }
  return ok_status();
}

Status write_build_script(const fs::path& folder, const std::string& script) {
  const fs::path path = folder / "src/build.sh";
  LLMC_RETURN_IF_ERROR(write_file(path, std::string_view(script)));
  std::error_code error;
  // Everyone who can read the script may execute it; the umask determined who can read it.
  const fs::perms readers = fs::status(path, error).permissions();
  fs::perms runners = fs::perms::owner_exec;
  if ((readers & fs::perms::group_read) != fs::perms::none) runners |= fs::perms::group_exec;
  if ((readers & fs::perms::others_read) != fs::perms::none) runners |= fs::perms::others_exec;
  if (!error) fs::permissions(path, runners, fs::perm_options::add, error);
  if (error) return system_error(path, "make executable", error.value());
  return ok_status();
}

Result<std::vector<std::string>> write_plan_file(const fs::path& folder, const std::string& name,
                                                 const std::string& plan) {
  const std::string file = name + std::string(kPlanSuffix);
  LLMC_TRY(std::vector<std::string> files, files_of(folder));
  LLMC_CHECK(!std::ranges::binary_search(files, file));
  files.insert(std::ranges::lower_bound(files, file), file);
  auto json = nlohmann::ordered_json::parse(plan);
  json["files"] = files;
  LLMC_RETURN_IF_ERROR(write_file(folder / file, json.dump(1) + "\n"));
  return files;
}

namespace {

struct PlanFile {
  std::string name, text;
  nlohmann::json json;  // an object
};
Result<PlanFile> read_plan(const fs::path& folder) {
  const auto bad = [&](std::string message) { return bad_bundle(folder, std::move(message)); };
  const std::vector<std::string> names = planned_names(folder);
  if (names.empty()) return bad("not a bundle that llmc compiled");
  if (names.size() > 1 || !emit::check_name(names[0]).ok())
    return bad("damaged bundle: there must be one plan.json, of a model's name");
  PlanFile plan{.name = names[0], .text = {}, .json = {}};
  std::error_code error;
  for (const std::string& file : {plan.name + ".h", "lib" + plan.name + ".a"}) {
    if (!fs::is_regular_file(folder / file, error))
      return bad("damaged bundle: " + file + " is missing");
  }
  if (!is_whole_archive(folder / ("lib" + plan.name + ".a")))
    return bad("damaged bundle: lib" + plan.name + ".a is truncated or not an archive");
  LLMC_TRY(plan.text, read_file(folder / (plan.name + std::string(kPlanSuffix)), kMaxPlanBytes));
  plan.json = nlohmann::json::parse(plan.text, nullptr, false);
  if (!plan.json.is_object())
    return bad("damaged bundle: cannot parse " + plan.name + ".plan.json");
  return plan;
}

/// Reads options, sizes in bytes, and numbers of the model. Like the functions below, throws a JSON
/// exception if a field is missing or has another type.
void read_options(const nlohmann::json& json, BundleFacts& facts) {
  facts.target = json.at("target").get<std::string>();
  facts.opt_level = json.value("opt_level", target::kMaxOptLevel);
  const auto& options = json.at("options");
  facts.embed_weights = options.at("weights").get<std::string>() == "embed";
  facts.ctx = options.value("ctx", std::uint32_t{0});
  facts.quant = options.value("quant", "");
  facts.calibration = options.value("calibration", "");
  facts.requantize = options.value("requantize", false);
  if (const auto kv = plan::parse_kv_formats(options.value("kv", "f32")); kv.ok()) facts.kv = *kv;
  const auto& bytes = json.at("bytes");
  facts.weights_bytes = bytes.at("weights").get<std::uint64_t>();
  facts.weights_per_token_bytes = bytes.at("weights_per_token").get<std::uint64_t>();
  facts.arena_bytes = bytes.value("arena", std::uint64_t{0});
  facts.cache_bytes = bytes.value("kv", std::uint64_t{0});
  if (const auto model = json.find("model"); model != json.end()) {
    facts.trained_ctx = model->value("trained_context", std::uint32_t{0});
    facts.parameters_per_token = model->value("parameters_per_token", std::uint64_t{0});
  }
  facts.numerics = json.value("numerics", "");
  facts.golden = json.value("golden", std::map<std::string, std::string>());
  facts.tokenizer_refused = json.value("tokenizer_refused", "");
}

/// Reads the members that only some bundles have: accelerator, shard, grammar, prompt, source and
/// tokenizer.
void read_parts(const nlohmann::json& json, BundleFacts& facts) {
  if (const auto found = json.find("accelerator"); found != json.end())
    facts.device = found->at("device").get<std::string>();
  if (const auto shard = json.find("shard"); shard != json.end()) {
    facts.shard = shard->at("index").get<std::uint32_t>();
    facts.shards = shard->at("count").get<std::uint32_t>();
    const std::string hash = shard->at("source").get<std::string>();
    facts.source_hash = std::strtoull(hash.c_str(), nullptr, 16);
  }
  if (json.contains("grammar"))
    facts.grammar_bytes = json.at("grammar").at("bytes").get<std::uint64_t>();
  if (json.contains("prompt"))
    facts.prompt = json.at("prompt").at("ids").get<std::vector<std::int32_t>>();
  if (json.contains("source")) {
    const auto& source = json.at("source");
    facts.frames_first = source.at("frames_first").get<bool>();
    facts.sound = sound_from(source);
  }
  if (json.contains("tokenizer"))
    facts.tokenizer_file = json.at("tokenizer").at("file").get<std::string>();
}

/// Reads the work of a decode step: cache reads, rounding and matrix products.
void read_work(const nlohmann::json& json, BundleFacts& facts) {
  if (const auto kv = json.find("kv"); kv != json.end()) {
    facts.cache_token_bytes = kv->at("token_bytes").get<std::uint64_t>();
    for (const auto& reads : kv->value("reads", nlohmann::json::array()))
      facts.cache_reads.push_back({.window = reads.at("window").get<std::uint64_t>(),
                                   .chunked = reads.at("chunked").get<bool>(),
                                   .key_bytes = reads.at("key_bytes").get<std::uint64_t>()});
  }
  if (json.contains("rounding")) facts.rounding = rounding_from(json.at("rounding"));
  for (const auto& entry : json.value("products", nlohmann::json::array())) {
    const auto part = plan::parse_part(entry.at("part").get<std::string>());
    if (!part) continue;
    facts.products.push_back({.part = *part,
                              .format = entry.at("format").get<std::string>(),
                              .macs = entry.at("macs").get<std::uint64_t>(),
                              .bytes = entry.at("bytes").get<std::uint64_t>(),
                              .split_bytes = entry.value("split_bytes", std::uint64_t{0})});
  }
}

/// Reads an image or audio encoder. Returns false if an input's type or size is invalid.
bool read_media(const nlohmann::json& image, BundleFacts& facts) {
  facts.image_rounding = rounding_from(image.at("rounding"));
  facts.image_open = image.contains("open_dims");
  facts.media.token = image.value("token", std::int32_t{-1});
  if (image.contains("sound")) {
    facts.media.kind = plan::MediaInput::Kind::kSound;
    facts.sound = sound_from(image.at("sound"));
  }
  if (image.contains("pixels")) {
    const auto& pixels = image.at("pixels");
    facts.media.known = true;
    facts.media.rescale = pixels.at("rescale").get<double>();
    facts.media.mean = pixels.at("mean").get<std::array<double, 3>>();
    facts.media.deviation = pixels.at("std").get<std::array<double, 3>>();
    facts.media.resize = resize_from(pixels.value("resize", nlohmann::json::object()));
  }
  for (const auto& input : image.at("inputs")) {
    const auto element = ir::parse_element_type(input.at("type").get<std::string>());
    if (!element) return false;
    facts.image_inputs.push_back({.name = input.at("name").get<std::string>(),
                                  .element = *element,
                                  .dims = input.at("dims").get<std::vector<std::int64_t>>(),
                                  .bytes = input.at("bytes").get<std::uint64_t>()});
    const ImageInput& read = facts.image_inputs.back();
    if (ir::checked_byte_count(read.element, read.dims) != read.bytes) return false;
  }
  return true;
}

/// Returns the facts in a plan.json; nullopt if they are invalid.
std::optional<BundleFacts> facts_of(const nlohmann::json& json) {
  BundleFacts facts;
  try {
    read_options(json, facts);
    read_parts(json, facts);
    read_work(json, facts);
    if (json.contains("image") && !read_media(json.at("image"), facts)) return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  if (facts.sound.rate < hosted::kMinRate || facts.sound.rate > hosted::kMaxRate)
    return std::nullopt;
  // A file name from plan.json must not refer to a path outside the folder.
  if (facts.tokenizer_file.find('/') != std::string::npos) return std::nullopt;
  return facts;
}

}  // namespace

Result<std::string> read_plan_file(const fs::path& folder) {
  LLMC_TRY(PlanFile plan, read_plan(folder));
  return std::move(plan.text);
}

Result<BundleFacts> read_bundle(const fs::path& folder) {
  LLMC_TRY(const PlanFile plan, read_plan(folder));
  const auto& [name, text, json] = plan;
  const auto bad = [&](std::string message) { return bad_bundle(folder, std::move(message)); };
  if (json.contains("kind") && json["kind"] == "function") {
    Diagnostic d = bad("the bundle is a compiled function, not a decoder");
    d.kind = ErrorKind::kUnsupported;
    d.hint =
        "to link it, see " + name +
        ".h; to check or measure it, give the model that was compiled, with the same --dim, to "
        "llmc verify, test-onnx or bench";
    return d;
  }
  auto facts = facts_of(json);
  if (!facts) return bad("damaged bundle: invalid " + name + ".plan.json");
  facts->name = name;
  if (!target::find(facts->target, facts->opt_level).ok())
    return bad("damaged bundle: " + name + ".plan.json names no known target");
  std::error_code error;
  if (!facts->embed_weights && !fs::is_regular_file(folder / (name + ".weights.bin"), error))
    return bad("damaged bundle: " + name + ".weights.bin is missing");
  return *std::move(facts);
}

}  // namespace llmc::driver
