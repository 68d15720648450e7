#include "models/random/random_model.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <system_error>

#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "models/random/normal.h"
#include "models/split/graph.h"
#include "models/split/output_stream.h"

namespace llmc::models {
namespace {

namespace fs = std::filesystem;

constexpr double kMatrixDeviation = 0.7;  // times 1 / sqrt(columns)
constexpr double kVectorDeviation = 0.02;

/// Stream of the embedding. Other streams are numbered by layer and role; none has this number.
constexpr std::uint64_t kEmbeddingStream = 0;

std::uint64_t stream_of(WeightId id) {
  constexpr std::uint64_t kRolesMost = 64;
  return 1 + static_cast<std::uint64_t>(id.layer) * kRolesMost +
         static_cast<std::uint64_t>(id.role);
}

bool is_norm(Role role) {
  return role == Role::kNorm1 || role == Role::kNorm2 || role == Role::kNorm ||
         role == Role::kQNorm || role == Role::kKNorm;
}

/// Weights that are generated while the file is written.
class RandomWeights final : public Weights {
 public:
  explicit RandomWeights(const RandomShape& shape) : shape_(shape) {}

  void add(OnnxBuilder& b, const std::string& name, const std::vector<std::int64_t>& dims,
           WeightId id) const override {
    if (id.role == Role::kHead && shape_.tied) {
      b.streamed(name, dims, tied_head());
      return;
    }
    // dims are [inputs, outputs] or, of experts, [experts, outputs, inputs]; the sum is over the
    // inputs.
    const std::int64_t inputs = dims.size() == 3 ? dims[2] : dims[0];
    const double deviation = dims.size() > 1
                                 ? kMatrixDeviation / std::sqrt(static_cast<double>(inputs))
                                 : kVectorDeviation;
    const NormalStream stream(shape_.config.seed, stream_of(id));
    const double mean = is_norm(id.role) ? 1 : 0;
    b.streamed(name, dims,
               [stream, values = f16_quantiles(mean, deviation)](std::uint64_t first,
                                                                 std::span<std::uint16_t> out) {
                 stream.fill(first, values, out);
               });
  }

  Status write_embedding(const fs::path& path) const {
    LLMC_TRY(OutputStream out, OutputStream::create(path));
    const std::vector<std::uint16_t> values = bf16_quantiles(0, embedding_deviation());
    const NormalStream stream = embedding();
    LLMC_RETURN_IF_ERROR(out.write_halves(
        static_cast<std::uint64_t>(shape_.config.vocabulary * shape_.config.hidden),
        [&](std::uint64_t first, std::span<std::uint16_t> halves) {
          stream.fill(first, values, halves);
        }));
    return out.close();
  }

 private:
  NormalStream embedding() const { return {shape_.config.seed, kEmbeddingStream}; }
  double embedding_deviation() const {
    return kMatrixDeviation / std::sqrt(static_cast<double>(shape_.config.hidden));
  }

  /// Returns the transposed embedding, [hidden, vocabulary].
  HalfStream tied_head() const {
    const auto hidden = static_cast<std::uint64_t>(shape_.config.hidden);
    const auto vocabulary = static_cast<std::uint64_t>(shape_.config.vocabulary);
    return [stream = embedding(), values = f16_quantiles(0, embedding_deviation(), true), hidden,
            vocabulary](std::uint64_t first, std::span<std::uint16_t> out) {
      std::uint64_t row = first / vocabulary, column = first % vocabulary;
      for (std::uint16_t& half : out) {
        half = values[stream.quantile(column * hidden + row)];
        if (++column == vocabulary) column = 0, ++row;
      }
    };
  }

  const RandomShape& shape_;
};

/// Fails unless the folder contains only files of such a model, so that it may be replaced.
Status check_only_a_random_model(const fs::path& folder) {
  const Diagnostic refused{.kind = ErrorKind::kBadInput,
                           .message = "the output folder exists and holds something else",
                           .hint = "name an empty or a new folder, or remove this one"};
  std::error_code error;
  bool config = false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool block = name.starts_with("block_") && name.ends_with(".onnx");
    config = config || name == "llm_config.json";
    if (!entry.is_regular_file(error)) return refused;
    if (!block && name != "lm.onnx" && name != "embeddings_bf16.bin" && name != "tokenizer.txt" &&
        name != "llm_config.json") {
      return refused;
    }
  }
  if (!config || error) return refused;
  return ok_status();
}

Status check_room(const RandomShape& shape, const fs::path& beside) {
  std::error_code error;
  const fs::space_info space = fs::space(beside, error);
  if (error || space.available >= file_bytes(shape)) return ok_status();
  return file_failure(ErrorKind::kBadInput, beside.string(),
                      fmt::format("the model takes {} bytes, the disk has room for {}",
                                  file_bytes(shape), space.available),
                      "choose another folder, or fewer layers");
}

}  // namespace

Status write_random_model(const RandomShape& shape, const fs::path& folder,
                          const RandomProgress& progress) {
  LLMC_TRY(AtomicDirectory output, AtomicDirectory::create(folder, check_only_a_random_model));
  const fs::path& at = output.path();
  LLMC_RETURN_IF_ERROR(check_room(shape, at));
  const SplitConfig& c = shape.config;
  const RandomWeights weights(shape);
  const std::int64_t files = c.layers + 2;
  const auto report = [&](std::int64_t done) {
    if (progress) progress(done, files);
  };
  report(0);
  LLMC_RETURN_IF_ERROR(write_file(at / "llm_config.json", config_json(c)));
  LLMC_RETURN_IF_ERROR(write_file(at / "tokenizer.txt", tokenizer_text(c)));
  LLMC_RETURN_IF_ERROR(weights.write_embedding(at / "embeddings_bf16.bin"));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    report(i + 1);
    OnnxBuilder block(c.opset, c.weight_type);
    build_block(c, weights, i, block);
    LLMC_RETURN_IF_ERROR(block.write(at / fmt::format("block_{}.onnx", i)));
  }
  report(c.layers + 1);
  OnnxBuilder head(c.opset, c.weight_type);
  build_head(c, weights, head);
  LLMC_RETURN_IF_ERROR(head.write(at / "lm.onnx"));
  LLMC_RETURN_IF_ERROR(output.commit());
  report(files);
  return ok_status();
}

}  // namespace llmc::models
