#include "tools/llmc/function_text.h"

#include <fmt/format.h>

#include "compiler/driver/bundle_files.h"
#include "compiler/support/parse_number.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

void add_function_options(CLI::App& app, FunctionOptions& options) {
  app.add_flag("--function", options.function,
               "Treat the graph as a function of its inputs, even if it is a decoder")
      ->group("Compilation");
  add_dims(app, options.dims);
}

CLI::Option* add_dims(CLI::App& app, std::vector<std::string>& dims) {
  return app
      .add_option("--dim", dims,
                  "Size of a symbolic dim of a function or an image encoder, or its range: NAME=N "
                  "or NAME=1..N; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=N[..N]")
      ->group("Compilation");
}

namespace {

/// Parses a number, or two numbers with ".." between them; nullopt for other text.
std::optional<plan::DimRange> parse_range(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<std::int64_t> {
    const auto value = parse_number<std::int64_t>(digits);
    return value && *value >= 0 ? value : std::nullopt;
  };
  const std::size_t dots = text.find("..");
  const auto min = number(text.substr(0, dots));
  const auto max = dots == text.npos ? min : number(text.substr(dots + 2));
  return min && max ? std::optional(plan::DimRange(*min, *max)) : std::nullopt;
}

std::string range_text(const plan::DimRange& range) {
  return range.is_number() ? fmt::format("{}", range.min)
                           : fmt::format("{}..{}", range.min, range.max);
}

}  // namespace

Status apply(const FunctionOptions& options, driver::CompileOptions& compile) {
  compile.function = options.function;
  LLMC_TRY(compile.dims, parse_dims(options.dims));
  return ok_status();
}

Result<plan::DimRanges> parse_dims(const std::vector<std::string>& dims) {
  plan::DimRanges ranges;
  for (const std::string& dim : dims) {
    const std::size_t at = dim.rfind('=');
    if (at != std::string::npos && dim.find('=') < at && dim.find(',') < at)
      return usage_error(fmt::format("--dim {} has several sizes", printable(dim)),
                         "repeat the option, such as --dim batch_size=1 --dim length=8");
    const auto size = at == std::string::npos || at == 0
                          ? std::nullopt
                          : parse_range(std::string_view(dim).substr(at + 1));
    if (!size)
      return usage_error(
          at == std::string::npos || at == 0 || at + 1 == dim.size()
              ? fmt::format("--dim {} has no size", printable(dim))
              : fmt::format("--dim {}: '{}' is not a size", printable(dim.substr(0, at)),
                            printable(dim.substr(at + 1), 40)),
          "write NAME=N, such as --dim batch_size=1, or --dim length=1..512");
    const auto [known, added] = ranges.emplace(dim.substr(0, at), *size);
    if (!added && known->second != *size)
      return usage_error(
          fmt::format("--dim has two sizes for '{}': {} and {}", printable(known->first, 40),
                      range_text(known->second), range_text(*size)),
          "remove one of them");
  }
  return ranges;
}

Result<std::optional<driver::Source>> function_to_run(const FunctionOptions& options,
                                                      driver::CompileOptions& compile) {
  const bool requested = options.function || !options.dims.empty();
  if (driver::looks_like_bundle(compile.model)) {
    if (requested)
      return usage_error(fmt::format("{} cannot change a compiled bundle",
                                     options.function ? "--function" : "--dim"),
                         "remove the option");
    return std::optional<driver::Source>();
  }
  LLMC_RETURN_IF_ERROR(apply(options, compile));
  LLMC_TRY(driver::Source source, driver::read_source(compile));
  std::optional<driver::Source> found;
  if (source.is_function) found = std::move(source);
  return found;
}

}  // namespace llmc::cli
