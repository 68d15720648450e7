#include "tools/llmc/function_text.h"

#include <fmt/format.h>

#include <charconv>

#include "tools/llmc/cli.h"

namespace llmc::cli {

void add_function_options(CLI::App& app, FunctionOptions& options) {
  app.add_flag("--function", options.function,
               "Compile the graph as a function of its inputs, even if it is a decoder")
      ->group("Compilation");
  app.add_option("--dim", options.dims,
                 "Size of a symbolic dim of a function: NAME=N; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=N")
      ->group("Compilation");
}

Status apply(const FunctionOptions& options, driver::CompileOptions& compile) {
  compile.function = options.function;
  for (const std::string& dim : options.dims) {
    const std::size_t at = dim.rfind('=');
    if (at != std::string::npos && dim.find('=') < at && dim.find(',') < at)
      return usage_error(fmt::format("--dim {} has several sizes", printable(dim)),
                         "repeat the option, such as --dim batch_size=1 --dim length=8");
    std::int64_t size = -1;
    if (at != std::string::npos) {
      const char* const end = dim.data() + dim.size();
      const auto [next, error] = std::from_chars(dim.data() + at + 1, end, size);
      if (error != std::errc{} || next != end) size = -1;
    }
    if (at == 0 || size < 0)
      return usage_error(fmt::format("--dim {} has no size", printable(dim)),
                         "write NAME=N, such as --dim batch_size=1");
    const auto [known, added] = compile.dims.emplace(dim.substr(0, at), size);
    if (!added && known->second != size)
      return usage_error(fmt::format("--dim has two sizes for '{}': {} and {}",
                                     printable(known->first, 40), known->second, size),
                         "remove one of them");
  }
  return ok_status();
}

std::string function_plan_text(const Json& plan) {
  std::string text;
  const auto ports = [&](std::string_view what, const Json& list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      text += fmt::format("{:<7} {:>3}  {}[{}]  {}\n", what, i,
                          printable(list[i].at("type").get<std::string>(), 20),
                          fmt::join(list[i].at("dims").get<std::vector<std::int64_t>>(), ", "),
                          printable(list[i].at("name").get<std::string>(), 80));
  };
  ports("input", plan.at("inputs"));
  ports("output", plan.at("outputs"));
  const Json& sizes = plan.at("bytes");
  const auto size = [&](const char* name) { return sizes.at(name).get<std::uint64_t>(); };
  const auto line = [&](std::string_view what, std::uint64_t bytes, const std::string& why) {
    text += fmt::format("{:<9} {:>14} bytes  {:>10}  {}\n", what, bytes, human_bytes(bytes), why);
  };
  line("weights", size("weights"), "constants");
  if (size("code") > 0)
    line("code", size("code"), fmt::format("{} stages", plan.at("stages").get<std::size_t>()));
  line("arena", size("arena"),
       fmt::format("all memory of a call; {} without reuse", human_bytes(size("values"))));
  text.pop_back();
  return text;
}

}  // namespace llmc::cli
