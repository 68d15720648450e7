#include "compiler/driver/model_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "compiler/driver/core_objects.h"
#include "compiler/driver/resources.h"
#include "compiler/emit/source.h"
#include "compiler/support/file.h"

namespace llmc::driver {

namespace fs = std::filesystem;

ModelCode::ModelCode(const Toolchain& toolchain, const plan::Plan& plan, fs::path folder,
                     std::vector<std::string> cflags)
    : toolchain_(toolchain), plan_(plan), folder_(std::move(folder)), cflags_(std::move(cflags)) {}

std::string ModelCode::object(std::string_view part) const {
  return fmt::format("{}/{}_{}.o", kObjects, plan_.options.name, part);
}

Status ModelCode::write_file(const std::string& relative, std::string_view content) const {
  const fs::path path = folder_ / relative;
  LLMC_RETURN_IF_ERROR(create_folders(path.parent_path()));
  return llmc::write_file(path, content);
}

Status ModelCode::write(std::uint64_t weights_hash) {
  const bool plain = plan_.program.is_plain();
  const std::string source = emit::model_source(plan_, weights_hash);
  LLMC_RETURN_IF_ERROR(write_file(plan_.options.name + ".h", emit::header(plan_, weights_hash)));
  LLMC_RETURN_IF_ERROR(write_file("src/model.cpp", source));
  // A plain graph needs no runtime.
  const std::vector<Resource> resources = plain ? headers_for(source) : resources_for(source);
  LLMC_RETURN_IF_ERROR(write_resources(folder_, resources));
  for (const Resource& resource : resources) {
    const std::string path = bundle_path(resource.path);
    if (path.ends_with(".cpp")) core_sources_.push_back(path);
  }
  return ok_status();
}

std::vector<std::string> ModelCode::arguments() const {
  const bool has_function = plan_.program.is_plain() || plan_.function() != nullptr;
  const auto arguments = has_function ? function_arguments : model_arguments;
  return arguments(*plan_.options.target, plan_.options.name, cflags_);
}

Result<std::vector<std::string>> ModelCode::compile(const Progress& progress) const {
  const target::Target& target = *plan_.options.target;
  std::vector<std::string> stems;
  std::vector<std::string_view> embedded;  // object of each source; empty: compile the source
  for (const std::string& source : core_sources_) {
    stems.push_back(fs::path(source).stem().string());
    embedded.push_back(core_object(target, stems.back()));
  }
  std::uint64_t done = 0;
  const auto compiled = std::ranges::count(embedded, std::string_view());
  const std::uint64_t total = static_cast<std::uint64_t>(compiled) + 1;
  report(progress, "compile", done, total);
  LLMC_RETURN_IF_ERROR(create_folders(folder_ / kObjects));
  std::vector<std::string> objects{object("model")};
  auto model = std::async(std::launch::async, [&, model_object = objects[0]]() -> Status {
    LLMC_RETURN_IF_ERROR(
        compile_source(toolchain_, folder_, arguments(), "src/model.cpp", model_object));
    return check_object(folder_ / model_object, target);
  });
  Status core = ok_status();
  for (std::size_t i = 0; i < core_sources_.size() && core.ok(); ++i) {
    objects.push_back(fmt::format("{}/llmc_{}.o", kObjects, stems[i]));
    if (!embedded[i].empty()) {
      core = llmc::write_file(folder_ / objects.back(), embedded[i]);
    } else {
      core = compile_source(toolchain_, folder_, core_arguments(target), core_sources_[i],
                            objects.back());
      report(progress, "compile", ++done, total);
    }
  }
  LLMC_RETURN_IF_ERROR(model.get());
  LLMC_RETURN_IF_ERROR(std::move(core));
  report(progress, "compile", total, total);
  return objects;
}

}  // namespace llmc::driver
