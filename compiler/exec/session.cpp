#include "compiler/exec/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/driver/library_status.h"
#include "compiler/exec/ranks.h"
#include "compiler/plan/plan.h"
#include "compiler/support/counted.h"

namespace llmc::exec {

struct Session::Grammar {
  std::vector<std::uint64_t> tables;  // 64-bit elements, for the alignment
  alignas(8) std::array<unsigned char, LLMC_GRAMMAR_BYTES> memory;
};

Status Session::check_room(std::size_t tokens) const {
  if (slides_ || tokens <= context_ - position()) return ok_status();
  return file_failure(ErrorKind::kBadInput, path_.string(),
                      fmt::format("no room for {}: {} of {} context tokens are in use",
                                  counted(tokens, "token"), position(), context_),
                      "compile with a larger --ctx");
}

Status Session::check_rows(std::span<const float> rows) const {
  const std::uint32_t width = model_.embedding_width;
  if (width == 0)
    return file_failure(ErrorKind::kUnsupported, path_.string(), "the model takes no embeddings",
                        "docs/inputs.md says which decoders do");
  if (rows.size() % width != 0)
    return file_failure(
        ErrorKind::kBadInput, path_.string(),
        fmt::format("{} are not rows of {}", counted(rows.size(), "number"), width));
  return check_room(rows.size() / width);
}

Status Session::append_embeddings(std::span<const float> rows) {
  LLMC_RETURN_IF_ERROR(check_rows(rows));
  return call(&Api::append_embeddings, rows.data(), rows.size() / model_.embedding_width, nullptr);
}

Status Session::append_embeddings_at(std::span<const float> rows,
                                     std::span<const std::int32_t> positions) {
  LLMC_RETURN_IF_ERROR(check_rows(rows));
  const std::size_t count = rows.size() / model_.embedding_width;
  LLMC_CHECK(model_.position_axes > 0 && positions.size() == count * model_.position_axes);
  return call(&Api::append_embeddings_at, rows.data(), positions.data(), count, nullptr);
}

Result<std::vector<float>> Session::encode_image(
    std::span<const std::span<const std::byte>> inputs) {
  if (model_.image_rows == 0)
    return file_failure(ErrorKind::kUnsupported, path_.string(), "the model has no image encoder",
                        "compile the folder with its vision_encoder.onnx");
  if (inputs.size() != handle_.image_bytes.size())
    return file_failure(ErrorKind::kBadInput, path_.string(),
                        fmt::format("the image encoder has {}, not {}",
                                    counted(handle_.image_bytes.size(), "input"), inputs.size()));
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() != handle_.image_bytes[i])
      return file_failure(ErrorKind::kBadInput, path_.string(),
                          fmt::format("input {} of the image encoder has {} bytes, not {}", i,
                                      inputs[i].size(), handle_.image_bytes[i]));
    pointers.push_back(inputs[i].data());
  }
  std::vector<float> rows(std::size_t{model_.image_rows} * model_.embedding_width);
  LLMC_TRY(const auto count,
           get<std::size_t>(&Api::encode_image, pointers.data(), nullptr, rows.data()));
  rows.resize(count * model_.embedding_width);
  return rows;
}

Status Session::prefill(std::span<const std::int32_t> tokens) {
  LLMC_RETURN_IF_ERROR(check_room(tokens.size()));
  for (const std::int32_t token : tokens) {
    if (token >= 0 && static_cast<std::uint32_t>(token) < vocabulary_) continue;
    return file_failure(
        ErrorKind::kBadInput, path_.string(),
        fmt::format("token id {} is not below the vocabulary of {}", token, vocabulary_),
        "`llmc tokenize` prints the ids of a text for this model");
  }
  LLMC_RETURN_IF_ERROR(call(&Api::prefill, tokens.data(), tokens.size(), nullptr));
  if (handle_.device.empty() || api().device_status(handle_.session) == LLMC_OK) return ok_status();
  return file_failure(ErrorKind::kUnsupported, path_.string(),
                      handle_.message != nullptr && !handle_.message->empty()
                          ? printable(*handle_.message)
                          : "the device has failed, and the CPU computed the prompt",
                      "");
}

std::optional<DeviceUse> Session::device_use() const {
  if (handle_.device.empty()) return std::nullopt;
  return DeviceUse{.name = handle_.device,
                   .jobs = api().device_jobs(handle_.session),
                   .copied_bytes = handle_.copied_bytes()};
}

Result<std::vector<llmc_candidate>> Session::candidates(int which, std::uint32_t n) {
  std::vector<llmc_candidate> found(std::min(n, vocabulary_));
  LLMC_TRY(const auto count, get<std::size_t>(&Api::candidates, which, found.data(), found.size()));
  found.resize(count);
  return found;
}

Status Session::set_logit_bias(std::vector<llmc_logit_bias> biases) {
  const auto same = [](const llmc_logit_bias& a, const llmc_logit_bias& b) {
    return a.token == b.token && a.bias == b.bias;
  };
  for (const std::vector<llmc_logit_bias>& known : biases_)
    if (std::ranges::equal(known, biases, same))
      return call(&Api::set_logit_bias, known.data(), known.size());
  LLMC_RETURN_IF_ERROR(call(&Api::set_logit_bias, biases.data(), biases.size()));
  biases_.push_back(std::move(biases));
  return ok_status();
}

Status Session::set_dry_breakers(hosted::DryBreakers breakers) {
  const llmc_dry_breakers table = breakers.table();
  LLMC_RETURN_IF_ERROR(call(&Api::set_dry_breakers, &table));
  // Moving the vectors does not move their elements, to which the session points.
  breakers_ = std::move(breakers);
  return ok_status();
}

Status Session::set_grammar(std::string_view tables) {
  auto grammar = std::make_shared<Grammar>();
  std::span<const std::byte> bytes = handle_.grammar;
  if (!tables.empty()) {
    grammar->tables.resize((tables.size() + 7) / 8);
    std::memcpy(grammar->tables.data(), tables.data(), tables.size());
    bytes = std::as_bytes(std::span(grammar->tables)).first(tables.size());
  }
  llmc_grammar* made = nullptr;
  LLMC_RETURN_IF_ERROR(check(api().grammar_init(grammar->memory.data(), grammar->memory.size(),
                                                bytes.data(), bytes.size(), &made)));
  LLMC_RETURN_IF_ERROR(call(&Api::set_grammar, made));
  grammar_ = std::move(grammar);
  return ok_status();
}

Result<llmc_beams*> Session::begin_beams(std::span<std::uint64_t> memory,
                                         const llmc_beam_options& options) {
  llmc_beams* search = nullptr;
  LLMC_RETURN_IF_ERROR(check(
      api().beams_init(memory.data(), memory.size_bytes(), handle_.session, &options, &search)));
  return search;
}

Result<int> Session::step_beams(llmc_beams* search) {
  int done = 0;
  LLMC_RETURN_IF_ERROR(check(api().beams_step(search, &done)));
  return done;
}

Result<std::vector<BeamResult>> Session::end_beams(llmc_beams* search) {
  std::vector<BeamResult> results(api().beams_count(search));
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    const std::int32_t* tokens = nullptr;
    std::size_t n = 0;
    LLMC_RETURN_IF_ERROR(check(api().beams_result(search, i, &tokens, &n, &results[i].score)));
    results[i].tokens.assign(tokens, tokens + n);
  }
  LLMC_RETURN_IF_ERROR(check(api().beams_end(search)));
  return results;
}

Result<std::string> Session::save_state() {
  if (api().state_save == nullptr) {
    return file_failure(ErrorKind::kUnsupported, path_.string(),
                        "a cache cannot be saved under an emulator",
                        "save the conversation only: its tokens are prefilled again");
  }
  std::string state(api().state_bytes(handle_.session), '\0');
  LLMC_RETURN_IF_ERROR(call(&Api::state_save, state.data(), state.size(), nullptr));
  return state;
}

Status Session::load_state(std::string_view state) {
  if (api().state_load == nullptr) {
    return file_failure(ErrorKind::kUnsupported, path_.string(),
                        "a cache cannot be loaded under an emulator");
  }
  return call(&Api::state_load, state.data(), state.size());
}

Status Session::check(llmc_status status) const {
  if (status == LLMC_OK) return ok_status();
  if (handle_.failure != nullptr && *handle_.failure) return **handle_.failure;
  const std::string& logged = *handle_.message;
  const char* const hint = status == LLMC_ERROR_CONTEXT_FULL ? "compile with a larger --ctx"
                           : status == LLMC_ERROR_SOURCE
                               ? "this command does not encode a source; run, ppl, compare, bench, "
                                 "identity and verify do"
                               : "";
  return file_failure(driver::kind_of(status), path_.string(),
                      printable(logged.empty() ? api().status_text(status) : logged), hint);
}

void Session::wait_for_ranks() const {
  if (handle_.ranks != nullptr) handle_.ranks->wait_for_all();
}

Result<std::span<const float>> Session::rows(const float* logits, std::size_t count) const {
  if (handle_.failure != nullptr && *handle_.failure) return **handle_.failure;
  return logits == nullptr ? std::span<const float>() : std::span(logits, count * vocabulary_);
}

Status Session::encode(const EncoderInput& source) {
  LLMC_RETURN_IF_ERROR(check_source(model_, source));
  if (model_.source_width == 0) return call(&Api::encode, source.ids.data(), source.ids.size());
  return call(&Api::encode_features, source.features.data(),
              source.features.size() / model_.source_width);
}

std::vector<float> random_features(std::size_t count) {
  std::vector<float> features;
  features.reserve(count);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    features.push_back(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
  return features;
}

Status check_source(const ModelFacts& model, const EncoderInput& source) {
  if (model.source_max == 0) {
    if (source.empty()) return ok_status();
    return usage_error("the model has no encoder", "leave the source out");
  }
  const bool wants_ids = model.source_width == 0;
  if (wants_ids ? source.ids.empty() : source.features.empty())
    return usage_error(
        source.empty()
            ? "the model is an encoder-decoder and needs a source"
            : fmt::format("the encoder reads {}", wants_ids ? "token ids" : "features, not tokens"),
        wants_ids ? "give the text to encode with --source, or its ids with --source-ids"
                  : "give a sound file with --audio, or features with --source-features");
  const std::uint32_t width = wants_ids ? 1 : model.source_width;
  const std::size_t size = wants_ids ? source.ids.size() : source.features.size();
  if (size % width != 0)
    return usage_error(fmt::format("{} are not frames of {}", counted(size, "feature"), width),
                       "give all features of each frame");
  std::string_view unit = plan::source_unit(model.source_width);
  unit.remove_suffix(1);  // the singular
  const std::size_t length = size / width;
  if (length < model.source_min)
    return usage_error(fmt::format("the source has {}, and the encoder needs at least {}",
                                   counted(length, unit), model.source_min),
                       "give a longer source");
  if (length <= model.source_max) return ok_status();
  return usage_error(
      fmt::format("the source has {}, and the model was compiled for {}", counted(length, unit),
                  model.source_max),
      model.source_min == model.source_max
          ? fmt::format("give a source of {}: the encoder has a fixed size",
                        counted(model.source_max, unit))
          : fmt::format("give a shorter source, or compile the model with --source-ctx {}, if its "
                        "encoder takes as many",
                        length));
}

}  // namespace llmc::exec
