#include "tools/llmc/text.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/source.h"
#include "compiler/driver/tokenizer_file.h"
#include "compiler/onnx/model.h"
#include "compiler/support/file.h"

namespace llmc::cli {

namespace {

/// Returns the tokenizer file of `model`; empty if a model has none. Fails for a bundle without a
/// tokenizer; the hint may end with `instead`.
Result<std::filesystem::path> tokenizer_path(const std::filesystem::path& model,
                                             const std::string& instead) {
  std::error_code error;
  if (!std::filesystem::is_directory(model, error) || !driver::looks_like_bundle(model))
    return driver::find_tokenizer(model);
  LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(model));
  if (!facts.tokenizer_refused.empty())
    return file_failure(
        ErrorKind::kUnsupported, model.string(),
        "has no tokenizer: the model's was refused when it was compiled: " +
            facts.tokenizer_refused,
        "use token ids, or compile a model with a tokenizer that docs/tokenizers.md lists");
  if (facts.tokenizer_file.empty()) {
    return file_failure(
        ErrorKind::kBadInput, model.string(),
        "the bundle has no tokenizer: the model's folder had none when it was "
        "compiled",
        "add tokenizer.json, tokenizer.model or tokenizer.txt to the model's folder "
        "and compile it again" +
            (instead.empty() ? std::string() : "; " + instead));
  }
  if (!std::filesystem::exists(model / facts.tokenizer_file, error))
    return file_failure(ErrorKind::kBadInput, model.string(),
                        "damaged bundle: " + facts.tokenizer_file + " is missing",
                        "compile the model again");
  return model / facts.tokenizer_file;
}

Diagnostic refused_tokenizer(const std::filesystem::path& path, const hosted::Failure& failure,
                             const std::string& instead) {
  std::string_view message = failure.message;
  if (const std::string named = path.string() + ": "; message.starts_with(named))
    message.remove_prefix(named.size());
  std::string hint = failure.unsupported ? "docs/tokenizers.md lists supported tokenizers"
                                         : "the file may be damaged or belong to another model";
  const std::filesystem::path other = path.parent_path() / "tokenizer.model";
  std::error_code unknown;
  if (path.filename() == "tokenizer.json" && std::filesystem::exists(other, unknown))
    hint += "; without the file, tokenizer.model is used";
  if (!instead.empty()) hint += "; " + instead;
  return {.kind = failure.unsupported ? ErrorKind::kUnsupported : ErrorKind::kBadInput,
          .file = path.string(),
          .message = printable(message, 1000),
          .hint = std::move(hint)};
}

/// Implements load_tokenizer() for Wanted::kTokenizerAlone.
Result<std::unique_ptr<hosted::Tokenizer>> tokenizer_alone(const std::filesystem::path& model,
                                                           const std::string& instead) {
  std::error_code unknown;
  const auto status = std::filesystem::status(model, unknown);
  if (!std::filesystem::exists(status))
    return system_error(model, "open", unknown ? unknown.value() : ENOENT);
  LLMC_TRY(const std::filesystem::path path, tokenizer_path(model, instead));
  if (path.empty()) {
    const bool folder = std::filesystem::is_directory(status);
    return file_failure(
        ErrorKind::kBadInput, model.string(),
        fmt::format("no tokenizer.txt, tokenizer.model or tokenizer.json in {}",
                    folder ? "the folder" : "the file's folder"),
        "copy the model's tokenizer there" + (instead.empty() ? "" : "; " + instead));
  }
  auto loaded = hosted::Tokenizer::load(path);
  if (loaded.ok()) return std::move(*loaded);
  return refused_tokenizer(path, loaded.failure(), instead);
}

}  // namespace

Result<std::unique_ptr<hosted::Tokenizer>> load_tokenizer(const std::filesystem::path& model,
                                                          const std::string& instead,
                                                          Wanted wanted) {
  auto loaded = tokenizer_alone(model, instead);
  if (loaded.ok() || wanted == Wanted::kTokenizerAlone) return loaded;
  LLMC_RETURN_IF_ERROR(check_decoder(model));
  return loaded;
}

std::string other_tokenizer_hint(const std::filesystem::path& model) {
  const auto path = tokenizer_path(model, "");
  return fmt::format("{} belongs to another model: replace it by the model's own",
                     path.ok() && !path->empty() ? printable(path->string()) : "the tokenizer");
}

Status check_decoder(const std::filesystem::path& model) {
  if (driver::looks_like_bundle(model)) return ok_status();
  LLMC_TRY(const importer::ImportedModel read, importer::import_model(model, {}));
  if (read.is_decoder()) return ok_status();
  return driver::not_a_decoder(read);
}

Result<std::string> read_text(const std::string& path) {
  const auto failed = [&](const char* what) {
    return file_failure(ErrorKind::kBadInput, path == "-" ? "standard input" : path, what,
                        "give a readable text file, or -: standard input");
  };
  std::error_code error;
  if (path != "-" && std::filesystem::is_directory(path, error)) return failed("is a folder");
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  if (!in) return failed("cannot be opened");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return failed("cannot be read");
  return text;
}

Result<std::string> read_prompt(const std::string& path) {
  LLMC_TRY(std::string text, read_text(path));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace llmc::cli
