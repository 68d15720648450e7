#include "compiler/driver/source.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/driver/dims.h"
#include "compiler/support/stopwatch.h"

namespace llmc::driver {
namespace {

/// Adds to an error the hint that --dim makes a decoder a function, which may be unintended.
Error with_decoder_hint(Error error) {
  std::vector<Diagnostic> all = error.diagnostics();
  Diagnostic& last = all.back();
  last.hint += (last.hint.empty() ? "" : "; ") +
               std::string(
                   "the model is a decoder, and --dim compiles its graph as a function: "
                   "leave --dim out to compile the decoder");
  return Error(std::move(all));
}

/// Imports `options.model` without warnings, as a decoder if it is one. Later calls return the
/// first result.
Result<importer::ImportedModel> silently_bound(const CompileOptions& options) {
  importer::ImportOptions import = import_options(options);
  import.on_warning = nullptr;
  return options.reader.bind(options.model, import);
}

/// Returns whether `options.model` is a decoder; false if it cannot be imported as one.
bool is_decoder(const CompileOptions& options) {
  const auto model = silently_bound(options);
  return model.ok() && model->is_decoder();
}

/// Returns whether `options.model` is a decoder with a media encoder.
bool has_media_encoder(const CompileOptions& options) {
  const auto model = silently_bound(options);
  return model.ok() && model->module.media_encoder() != nullptr;
}

/// Imports `options.model` as a plain graph. Reuses the first import if that found a plain graph.
Result<importer::ImportedModel> plain_graph(const CompileOptions& options) {
  const importer::ImportOptions import = import_options(options);
  if (options.function) return options.reader.bind_plain(options.model, {}, import);
  auto bound = silently_bound(options);
  if (!bound.ok() || bound->is_decoder())
    return options.reader.bind_plain(options.model, {}, import);
  if (import.on_warning) std::ranges::for_each(bound->warnings, import.on_warning);
  return bound;
}

/// Checks options.dims for `graph`, the graph of a decoder, and warns that it is compiled as a
/// function.
Status check_decoder_dims(const CompileOptions& options, const ir::Graph& graph) {
  const auto range =
      std::ranges::find_if(options.dims, [](const auto& dim) { return !dim.second.is_number(); });
  if (range != options.dims.end())
    return file_failure(
        ErrorKind::kUsage, options.model.string(),
        fmt::format("the model is a decoder, and --dim gives '{}' a range",
                    printable(range->first, 40)),
        "leave --dim out to compile the decoder, whose sizes are those of --ctx and --batch; "
        "--function compiles its graph as a function");
  auto bound = bind_dims(graph, options.dims);
  if (!bound.ok()) return with_decoder_hint(std::move(bound).error());
  if (const std::string flags = missing_dims(*bound, options.dims); !flags.empty())
    return with_decoder_hint(open_sizes(options, flags));
  if (options.import.on_warning)
    options.import.on_warning(
        {.file = options.model.string(),
         .message = "the model is a decoder, and --dim compiles its graph as a function",
         .hint = "leave --dim out to compile the decoder; --function says that a function is "
                 "meant"});
  return ok_status();
}

std::string folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

/// Returns whether a file is one part of a split model, by its name and by block_0.onnx in its
/// folder.
bool is_part(const std::filesystem::path& file) {
  std::error_code error;
  const std::string name = file.filename().string();
  const std::filesystem::path first = std::filesystem::path(folder_of(file)) / "block_0.onnx";
  return (name == "lm.onnx" || name == "embedding.onnx" || name.starts_with("block_")) &&
         std::filesystem::exists(first, error);
}

}  // namespace

importer::ImportOptions import_options(const CompileOptions& options) {
  importer::ImportOptions import = options.import;
  import.float_products = options.quant_given || options.requantize;
  return import;
}

Diagnostic open_sizes(const CompileOptions& options, const std::string& flags) {
  return file_failure(ErrorKind::kUsage, options.model.string(),
                      "some dims of the inputs have no size",
                      is_part(options.model)
                          ? fmt::format("the file is one part of a split model: give its folder, "
                                        "{}; or each dim a number, or a range such as 1..N: {}",
                                        folder_of(options.model), flags)
                          : "give each a number, or a range such as 1..N: " + flags);
}

Diagnostic not_a_decoder(const importer::ImportedModel& model) {
  Diagnostic d{.kind = ErrorKind::kUnsupported, .file = model.path.string()};
  if (is_part(model.path)) {
    d.message = "the file is one part of a split model";
    d.hint = "give the folder of the model: " + folder_of(model.path);
    return d;
  }
  if (model.lacks_cache) {
    d.message =
        "the graph has token ids and logits but no cache that it extends, so it cannot generate "
        "text";
    d.hint =
        "export it with past key values (use_cache), or compile it as a function of fixed "
        "sizes: ";
  } else {
    d.message = "the graph is not a decoder with token ids, a cache and logits";
    d.hint = "compile it as a function: ";
  }
  const std::string flags = missing_dims(model.graph());
  const std::string options = flags.empty() && model.lacks_cache ? "--function" : flags;
  const std::string arguments = " MODEL" + (options.empty() ? "" : " " + options);
  d.hint += "`llmc compile" + arguments + "`; `llmc bench" + arguments + "` measures one";
  return d;
}

Result<MediaGraph> bind_media_dims(const ir::Graph& graph, const CompileOptions& options) {
  MediaGraph encoder;
  encoder.dims = options.dims.empty() ? usual_dims(graph) : options.dims;
  LLMC_TRY(encoder.graph, bind_dims(graph, encoder.dims));
  if (const std::string flags = missing_dims(encoder.graph, encoder.dims); !flags.empty())
    return file_failure(ErrorKind::kUsage, options.model.string(),
                        "some dims of the image encoder's inputs have no size",
                        "give each a number, or a range such as 1..N: " + flags);
  return encoder;
}

Result<Source> read_source(const CompileOptions& options, const Progress& progress) {
  report(progress, "import", 0, 0);
  const Stopwatch watch;
  const bool asked = options.function || (!options.dims.empty() && !has_media_encoder(options));
  Source source;
  LLMC_TRY(source.model, asked ? plain_graph(options)
                               : options.reader.bind(options.model, import_options(options)));
  source.is_function = asked || !source.model.is_decoder();
  if (!asked && source.model.lacks_cache) return not_a_decoder(source.model);
  if (asked && !options.function && is_decoder(options))
    LLMC_RETURN_IF_ERROR(check_decoder_dims(options, source.model.graph()));
  if (source.is_function && !options.function && is_part(options.model) &&
      options.import.on_warning)
    options.import.on_warning(
        {.file = options.model.string(),
         .message = "the file is one part of a split model, and is compiled "
                    "alone, as a function of its inputs",
         .hint = fmt::format("give the folder of the model, {}, or --function "
                             "for this part",
                             folder_of(options.model))});
  source.dims = options.dims;
  if (source.is_function && source.dims.empty()) {
    source.dims = usual_dims(source.model.graph());
    if (!source.dims.empty() && options.import.on_warning)
      options.import.on_warning(
          {.file = options.model.string(),
           .message =
               "the inputs have sizes that are not fixed; assuming " + dim_flags(source.dims),
           .hint = "--dim gives others; it must then be given for each of them"});
  }
  source.import_seconds = watch.seconds();
  return source;
}

}  // namespace llmc::driver
