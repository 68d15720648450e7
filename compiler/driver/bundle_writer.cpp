#include "compiler/driver/bundle_writer.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "compiler/driver/archive.h"
#include "compiler/driver/bundle_files.h"
#include "compiler/driver/chat_files.h"
#include "compiler/driver/prompt_data.h"
#include "compiler/emit/names.h"
#include "compiler/emit/source.h"
#include "compiler/emit/weights.h"
#include "compiler/support/file.h"
#include "llmc/model.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

std::string_view header_bytes(const llmc_weights_header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

BundleWriter::BundleWriter(const CompileOptions& options, const Toolchain& toolchain,
                           const BundleContent& content, plan::Plan& plan, fs::path folder,
                           const Progress& progress)
    : options_(options),
      toolchain_(toolchain),
      content_(content),
      plan_(plan),
      name_(plan.options.name),
      folder_(std::move(folder)),
      progress_(progress),
      code_(toolchain, plan, folder_, options.cflags) {}

Status BundleWriter::begin_weights() {
  LLMC_RETURN_IF_ERROR(create_folders(folder_ / ModelCode::kObjects));
  LLMC_TRY(OutputFile file, OutputFile::create(folder_ / weights_file()));
  weights_.emplace(std::move(file));
  if (plan_.options.embed_weights) {
    weights_object_ = data_object("weights", plan_.weights_bytes);
    LLMC_RETURN_IF_ERROR(weights_->write(std::string_view(weights_object_.prefix)));
  } else {
    LLMC_RETURN_IF_ERROR(weights_->write(header_bytes({})));
  }
  weights_->reset_hash();
  return ok_status();
}

Status BundleWriter::add_weights(std::span<const std::byte> data) {
  return weights_->write(data);
}

Status BundleWriter::end_weights() {
  weights_hash_ = weights_->hash();
  if (plan_.options.embed_weights) {
    LLMC_RETURN_IF_ERROR(weights_->write(std::string_view(weights_object_.suffix)));
    weights_at_ = weights_object_.prefix.size();
    LLMC_RETURN_IF_ERROR(write_data("weights", std::string(LLMC_ALIGNMENT, '\0')));
  } else {
    const llmc_weights_header header = emit::weights_header(plan_.weights_bytes, weights_hash_);
    LLMC_RETURN_IF_ERROR(weights_->patch(0, header_bytes(header)));
  }
  return weights_->close();
}

Status BundleWriter::write_sources() {
  const target::Target& target = *plan_.options.target;
  LLMC_RETURN_IF_ERROR(code_.write(weights_hash_));
  std::vector<std::string> data;
  for (const std::string& part : data_parts()) data.push_back(name_ + "_" + part + ".o");
  LLMC_RETURN_IF_ERROR(write_build_script(
      folder_,
      build_script(toolchain_, target, name_, code_.arguments(), code_.core_sources(), data)));
  LLMC_RETURN_IF_ERROR(code_.write_file(name_ + ".cmake", emit::cmake_file(name_)));
  LLMC_RETURN_IF_ERROR(code_.write_file(
      name_ + ".pc", emit::pkg_config_file(
                         name_, plan_.program.is_plain() ? "function" : "language model", target)));
  if (content_.tokenizer != nullptr) {
    const auto tables = content_.tokenizer->tables();
    LLMC_RETURN_IF_ERROR(
        code_.write_file(plan_.options.tokenizer_file,
                         {reinterpret_cast<const char*>(tables.data()), tables.size()}));
  }
  if (!content_.chat.empty())
    LLMC_RETURN_IF_ERROR(code_.write_file(name_ + kChatSuffix, hosted::to_json(content_.chat)));
  return ok_status();
}

Status BundleWriter::compile() {
  LLMC_TRY(objects_, code_.compile(progress_));
  LLMC_RETURN_IF_ERROR(measure_code(objects_));
  for (const std::string& part : data_parts()) objects_.push_back(code_.object(part));
  if (!content_.grammar.empty())
    LLMC_RETURN_IF_ERROR(write_data("grammar", content_.grammar, /*exported=*/true));
  if (plan_.prompt.tokens == 0) return write_archive();
  return write_data("prompt", std::string(plan_.prompt.bytes, '\0'));
}

Result<std::string> BundleWriter::compute_prompt() {
  report(progress_, "prompt", 0, 0);
  LLMC_RETURN_IF_ERROR(make_archive(toolchain_, folder_, archive(), objects_));
  return prompt_data({.toolchain = toolchain_,
                      .plan = plan_,
                      .folder = folder_,
                      .archive = archive(),
                      .weights = weights_file(),
                      .weights_at = weights_at_,
                      .weights_hash = weights_hash_,
                      .cflags = options_.cflags});
}

Status BundleWriter::add_prompt(const std::string& data) {
  LLMC_CHECK(data.size() == plan_.prompt.bytes);
  plan_.prompt.hash = XXH64(data.data(), data.size(), 0);
  LLMC_RETURN_IF_ERROR(write_data("prompt", data));
  return write_archive();
}

Result<std::vector<std::string>> BundleWriter::finish() {
  std::error_code error;
  fs::remove_all(folder_ / ModelCode::kObjects, error);
  if (error) return system_error(folder_ / ModelCode::kObjects, "remove", error.value());
  return write_plan_file(folder_, name_,
                         plan::to_json(plan_, fmt::format("{:016x}", weights_hash_)));
}

/// Returns the name of the weights file or, if the weights are embedded, of the object that
/// contains them. llvm-ar gets a placeholder NAME_weights.o instead of that object.
std::string BundleWriter::weights_file() const {
  if (!plan_.options.embed_weights) return name_ + ".weights.bin";
  return fmt::format("{}/weights", ModelCode::kObjects);
}

/// Returns the names of the library's parts that contain only data, the weights last.
std::vector<std::string> BundleWriter::data_parts() const {
  std::vector<std::string> parts;
  if (!content_.grammar.empty()) parts.emplace_back("grammar");
  if (plan_.prompt.tokens > 0) parts.emplace_back("prompt");
  if (embeds_weights()) parts.emplace_back("weights");
  return parts;
}

emit::ElfObject BundleWriter::data_object(const std::string& part, std::uint64_t bytes,
                                          bool exported) const {
  return emit::elf_object(plan_.options.target->architecture, name_ + "_" + part, bytes,
                          LLMC_ALIGNMENT, exported);
}

Status BundleWriter::write_data(const std::string& part, const std::string& data,
                                bool exported) const {
  const emit::ElfObject elf = data_object(part, data.size(), exported);
  return code_.write_file(code_.object(part), elf.prefix + data + elf.suffix);
}

Status BundleWriter::write_archive() const {
  LLMC_RETURN_IF_ERROR(make_archive(toolchain_, folder_, archive(), objects_));
  if (!embeds_weights()) return ok_status();
  return replace_last_member(folder_, archive(), weights_file());
}

Status BundleWriter::measure_code(const std::vector<std::string>& objects) {
  std::uint64_t bytes = 0;
  for (const std::string& path : objects) {
    LLMC_TRY(const std::string content, read_file(folder_ / path));
    const auto loaded = emit::loaded_bytes(content);
    if (!loaded) return ok_status();  // not ELF: keep the estimate
    bytes += *loaded;
  }
  plan_.code_bytes = bytes;
  plan_.code_is_estimate = false;
  return ok_status();
}

}  // namespace llmc::driver
