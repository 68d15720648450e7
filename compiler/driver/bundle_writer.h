#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/driver/model_code.h"
#include "compiler/driver/output_file.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/elf_object.h"
#include "runtime/hosted/chat/format.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::driver {

/// Content that is the same in the bundles of one model for all targets.
struct BundleContent {
  std::unique_ptr<hosted::Tokenizer> tokenizer;  // may be nullptr
  hosted::ChatDescription chat;
  std::string grammar;  // the grammar's tables; empty without a grammar
};

/// Writes the files of one bundle into a folder. Call the functions in the order of declaration.
/// Call the functions for weights only if the plan has weights, and compute_prompt() and
/// add_prompt() only if it has a prompt. add_prompt() also accepts data that the writer of another
/// target computed.
class BundleWriter {
 public:
  /// All arguments except `folder` must outlive the writer. The writer stores the size of the code
  /// and the hash of the prompt in `plan`.
  BundleWriter(const CompileOptions& options, const Toolchain& toolchain,
               const BundleContent& content, plan::Plan& plan, std::filesystem::path folder,
               const Progress& progress);

  /// Weights are added in pieces, so that they are encoded once for the bundles of all targets.
  Status begin_weights();
  Status add_weights(std::span<const std::byte> data);
  Status end_weights();
  Status write_sources();
  /// Compiles the library, without the data that add_prompt() adds.
  Status compile();
  /// Returns the prompt's read-only data. Runs the compiled library or, if the host cannot execute
  /// it, a build of the same model for the host (prompt_data.h).
  Result<std::string> compute_prompt();
  Status add_prompt(const std::string& data);
  /// Completes the bundle. Returns its files, relative to the folder and sorted.
  Result<std::vector<std::string>> finish();

 private:
  std::string archive() const { return "lib" + name_ + ".a"; }
  std::string weights_file() const;
  bool embeds_weights() const { return plan_.options.embed_weights && plan_.weights_bytes > 0; }
  std::vector<std::string> data_parts() const;
  emit::ElfObject data_object(const std::string& part, std::uint64_t bytes,
                              bool exported = false) const;
  Status write_data(const std::string& part, const std::string& data, bool exported = false) const;
  Status write_archive() const;
  Status measure_code(const std::vector<std::string>& objects);

  const CompileOptions& options_;
  const Toolchain& toolchain_;
  const BundleContent& content_;
  plan::Plan& plan_;
  const std::string name_;
  const std::filesystem::path folder_;
  const Progress& progress_;
  ModelCode code_;
  std::vector<std::string> objects_;  // of the library
  std::optional<OutputFile> weights_;
  emit::ElfObject weights_object_;
  std::uint64_t weights_hash_ = 0, weights_at_ = 0;
};

}  // namespace llmc::driver
