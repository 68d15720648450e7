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

/// Maximum number of tokens per window.
inline constexpr std::uint32_t kCalibrationWindow = 256;
/// Returns the maximum number of tokens with which matrices of `weights` weights in total are
/// calibrated: 8192 for large models, up to 32768 for small ones.
std::uint32_t calibration_tokens(std::uint64_t weights);

/// With kPlan, a calibration is only checked, because plans do not depend on the encoded matrices.
enum class Purpose { kPlan, kCompile };

/// Returns the encoded matrices of `stages`, the graph after the passes. Returns no matrices
/// without options.calibration, for Purpose::kPlan, or if no matrix is rounded (with a warning).
/// Caches the result in the cache folder, if there is one; the key depends on the model, the graph
/// and the text. `refused`: why the model's tokenizer was rejected, or empty. `context`: the
/// model's context in tokens, which windows do not exceed. Fails like ids_of(), bos_of(),
/// check_ids(), CalibrationText::write and calibrate::calibrate().
Result<calibrate::Matrices> calibrated(const ir::Graph& stages, const CompileOptions& options,
                                       Purpose purpose, const importer::ImportedModel& model,
                                       const hosted::Tokenizer* tokenizer,
                                       const std::string& refused, std::uint32_t context,
                                       const Progress& progress);

/// Sets PackedWeight::encoded of the plans' matrices.
void use_encoded(const calibrate::Matrices& matrices, std::vector<plan::Plan>& plans);

/// Returns text_key() of the calibration text, for cache keys. Empty without a calibration, or if
/// options.quant is not a quantized format.
std::string calibration_key(const CompileOptions& options);

}  // namespace llmc::driver
