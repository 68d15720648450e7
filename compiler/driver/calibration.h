#pragma once

#include <string>
#include <vector>

#include "compiler/calibrate/calibrate.h"
#include "compiler/driver/compile_options.h"
#include "compiler/driver/progress.h"
#include "compiler/onnx/model.h"
#include "compiler/plan/plan.h"
#include "runtime/hosted/tokenizer.h"

/// Calibrates the quantized matrices of a decoder with a text (--calibrate).
namespace llmc::driver {

/// Tokens of a window.
inline constexpr std::uint32_t kCalibrationWindow = 256;
/// Returns the number of tokens that are read of a long text, or written, to calibrate matrices of
/// so many weights: 8192 for large models, and up to 32768 for small ones.
std::uint32_t calibration_tokens(std::uint64_t weights);

/// Plans do not depend on the encoded matrices: for them a calibration is only checked.
enum class Purpose { kPlan, kCompile };

/// Returns the encoded matrices of `stages`, the graph after the passes; nothing without
/// options.calibration and to plan. Keeps the result in the cache folder, if there is one: its key
/// depends on the model, the graph and the text. `refused`: why the model's tokenizer is not used.
/// Fails with kBadInput if the text is too short, or if it is not a list of ids and there is no
/// tokenizer, and like calibrate().
Result<calibrate::Matrices> calibrated(const ir::Graph& stages, const CompileOptions& options,
                                       Purpose purpose, const importer::ImportedModel& model,
                                       const hosted::Tokenizer* tokenizer,
                                       const std::string& refused, std::uint32_t context,
                                       const Progress& progress);

/// Sets the encoded matrices in the plans' weights.
void use_encoded(const calibrate::Matrices& matrices, std::vector<plan::Plan>& plans);

/// Returns a word that changes with the text, for keys of caches; empty without a calibration.
std::string calibration_key(const CompileOptions& options);

}  // namespace llmc::driver
