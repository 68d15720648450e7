#include "tools/llmc/function_text.h"

#include <fmt/format.h>

#include <charconv>

#include "compiler/driver/bundle_files.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

void add_function_options(CLI::App& app, FunctionOptions& options) {
  app.add_flag("--function", options.function,
               "Compile the graph as a function of its inputs, whatever it is")
      ->group("Compilation");
  app.add_option("--dim", options.dims, "Functions: size of a symbolic dim, as name=value")
      ->allow_extra_args(false)
      ->type_name("NAME=N")
      ->group("Compilation");
}

Status apply(const FunctionOptions& options, driver::CompileOptions& compile) {
  compile.function = options.function;
  for (const std::string& dim : options.dims) {
    const std::size_t at = dim.rfind('=');
    if (at != std::string::npos && dim.find('=') < at && dim.find(',') < at)
      return usage_error(fmt::format("--dim {} gives several sizes", printable(dim)),
                         "repeat the option for each, such as --dim batch_size=1 --dim length=8");
    std::int64_t size = -1;
    if (at != std::string::npos) {
      const char* const end = dim.data() + dim.size();
      const auto [next, error] = std::from_chars(dim.data() + at + 1, end, size);
      if (error != std::errc{} || next != end) size = -1;
    }
    if (at == 0 || size < 0)
      return usage_error(fmt::format("--dim {} gives no size", printable(dim)),
                         "write name=value, such as --dim batch_size=1");
    const auto [known, added] = compile.dims.emplace(dim.substr(0, at), size);
    if (!added && known->second != size)
      return usage_error(fmt::format("--dim gives '{}' two sizes, {} and {}",
                                     printable(known->first, 40), known->second, size),
                         "leave one of them out");
  }
  return ok_status();
}

Result<std::optional<driver::Source>> function_to_run(const FunctionOptions& options,
                                                      driver::CompileOptions& compile) {
  const bool asked = options.function || !options.dims.empty();
  if (driver::looks_like_bundle(compile.model)) {
    if (asked)
      return usage_error(fmt::format("{} cannot change a compiled bundle",
                                     options.function ? "--function" : "--dim"),
                         "leave it out");
    return std::optional<driver::Source>();
  }
  LLMC_RETURN_IF_ERROR(apply(options, compile));
  LLMC_TRY(driver::Source source, driver::read_source(compile));
  std::optional<driver::Source> found;
  if (source.is_function) found = std::move(source);
  return found;
}

}  // namespace llmc::cli
