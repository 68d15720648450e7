#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/plan/parts.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/rounding.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/target/device.h"

namespace llmc::plan {
namespace {

using Json = nlohmann::ordered_json;

Json weight_json(const PackedWeight& weight) {
  Json json;
  json["role"] = weight.label;
  if (weight.layer >= 0) json["layer"] = weight.layer;
  json["name"] = weight.name;
  json["format"] = weight.format_name();
  if (const std::string history = weight.conversion_text(); !history.empty())
    json["history"] = history;
  json["rows"] = weight.rows;
  json["columns"] = weight.columns;
  json["packed_rows"] = weight.packed_rows;
  json["offset"] = weight.offset;
  json["bytes"] = weight.bytes;
  json["bits_per_weight"] = std::stod(fmt::format("{:.3f}", weight.bits_per_weight()));
  if (weight.loss_share >= 0) json["loss_share"] = weight.loss_share;
  return json;
}

Json rounding_json(const Rounding& rounding) {
  Json formats = Json::array();
  for (const ir::WeightFormat format : rounding.formats)
    formats.push_back(weight_format_name(format));
  return {{"formats", std::move(formats)},
          {"rounded", rounding.rounded},
          {"kept", rounding.kept},
          {"requantized", rounding.requantized},
          {"activations", rounding.rounds_activations}};
}

Json resize_json(const ImageResize& resize) {
  if (resize.fit == ImageResize::Fit::kUnknown) return {{"unknown", resize.unknown_key}};
  return {{"fit", resize.fit == ImageResize::Fit::kExact ? "exact" : "shortest_edge"},
          {"width", resize.width},
          {"height", resize.height},
          {"filter", resize.filter},
          {"crop_width", resize.crop_width},
          {"crop_height", resize.crop_height}};
}

Json buffer_json(const Plan& plan, std::size_t index) {
  const Buffer& buffer = plan.program.buffers[index];
  const BufferPlace& place = plan.memory.buffers[index];
  return {{"name", buffer.name},
          {"rows", buffer.one_row ? plan.options.batch : plan.options.chunk},
          {"width", buffer.width},
          {"offset", place.offset},
          {"bytes", place.bytes}};
}

Json ports_json(const std::vector<Port>& ports) {
  Json array = Json::array();
  for (const Port& port : ports) {
    array.push_back({{"name", port.name},
                     {"type", ir::to_string(port.element)},
                     {"dims", bounds(port.dims)},
                     {"bytes", port.bytes()}});
    if (all_constant(port.dims)) continue;
    for (const Size& size : port.dims) array.back()["formulas"].push_back(to_string(size));
  }
  return array;
}

/// Adds inputs, outputs and open dims of a plain graph.
void add_ports(Json& json, const Program& program) {
  json["inputs"] = ports_json(program.inputs);
  json["outputs"] = ports_json(program.outputs);
  for (const OpenDimPtr& dim : program.open_dims)
    json["open_dims"].push_back(
        {{"name", dim->name}, {"min", dim->range.min}, {"max", dim->range.max}});
}

/// Adds the sections of a plain graph.
void add_plain(Json& json, const Plan& plan) {
  const Program& program = plan.program;
  json["options"] = {{"quant", plan.options.quant},
                     {"threads_max", plan.options.threads_max},
                     {"weights", plan.options.embed_weights ? "embed" : "file"}};
  add_ports(json, program);
  json["stages"] = program.forward.size();
  std::uint64_t values = 0;
  Json buffers = Json::array();
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlace& place = plan.memory.buffers[i];
    const Buffer& buffer = program.buffers[i];
    if (place.bytes == 0) continue;
    const std::uint64_t bytes = buffer.width * ir::element_bytes(buffer.element);
    values += bytes;
    buffers.push_back({{"name", buffer.name},
                       {"offset", place.offset},
                       {"bytes", bytes},
                       {"stages", {place.first, place.last}}});
  }
  json["bytes"] = {{"weights", plan.weights_bytes},     {"arena", plan.arena_bytes},
                   {"values", plan.memory.work_offset}, {"all_values", values},
                   {"work", plan.memory.work_bytes},    {"code", plan.code_bytes}};
  json["buffers"] = std::move(buffers);
}

/// Adds the work of loop nests, if there is any.
void add_loops(Json& json, const Program& program) {
  const NestWork work = nest_work(program);
  if (work.stages == 0) return;
  json["loops"] = {{"stages", work.stages},
                   {"multiply_adds", work.multiply_adds},
                   {"all_multiply_adds", work.all_multiply_adds},
                   {"bytes", work.bytes},
                   {"all_bytes", work.all_bytes},
                   {"operators", work.operators}};
}

Json budget_json(const BudgetReport& budget) {
  Json json;
  if (budget.bytes > 0) {
    json["fit"] = budget.bytes;
  } else {
    json["max_kl"] = budget.max_kl;
  }
  json["weights"] = budget.weights_bytes;
  json["estimated_kl"] = budget.estimated_kl;
  json["measured_kl"] = budget.measured_kl;
  json["measured_tokens"] = budget.tokens;
  json["own_text"] = budget.own_text;
  for (const BudgetReport::Matrices& matrices : budget.matrices) {
    Json one{{"role", matrices.role}, {"origin", matrices.origin}};
    if (matrices.first_layer >= 0) one["layers"] = {matrices.first_layer, matrices.last_layer};
    one["format"] = matrices.format;
    one["bytes"] = matrices.bytes;
    one["loss_share"] = matrices.share;
    json["matrices"].push_back(std::move(one));
  }
  return json;
}

/// Adds the section of an accelerator: its regions and what crosses their borders.
void add_accelerator(Json& json, const Plan& plan) {
  const Partition& partition = *plan.partition;
  Json regions = Json::array();
  for (const Region& region : partition.regions) {
    const auto rows = [&](const std::vector<BufferId>& buffers) {
      Json shapes = Json::array();
      for (const BufferId id : buffers)
        shapes.push_back({{"buffer", plan.program.buffers[id.index].name},
                          {"element", ir::to_string(plan.program.buffers[id.index].element)},
                          {"shape", {plan.options.chunk, plan.program.buffers[id.index].width}}});
      return shapes;
    };
    regions.push_back({{"count", region.count},
                       {"stages", region.stages},
                       {"products", region.products},
                       {"multiply_adds", region.multiply_adds},
                       {"weights", region.weight_bytes},
                       {"inputs", rows(region.inputs)},
                       {"outputs", rows(region.outputs)}});
  }
  json["accelerator"] = {{"device", partition.device->name},
                         {"in_flight", plan.in_flight()},
                         {"steps", partition.steps},
                         {"regions", std::move(regions)},
                         {"multiply_adds", partition.device_multiply_adds},
                         {"all_multiply_adds", partition.multiply_adds},
                         {"to_device", partition.bytes_to_device},
                         {"from_device", partition.bytes_from_device}};
}

/// Returns the section of an encoder-decoder: its encoder and the source.
Json source_json(const Plan& plan) {
  const PlanOptions& options = plan.options;
  const Plan& encoder = *plan.encoder;
  Json json = {{"min", options.source_min},
               {"max", options.source_max},
               {"width", source_width(encoder)},
               {"rows", source_rows(encoder).bound()},
               {"frames_first", frames_first(encoder)},
               {"rate", options.sound.rate},
               {"normalized", options.sound.normalized},
               {"mels", options.sound.mels},
               {"count", options.sources},
               {"bytes", plan.source_bytes},
               {"encoder_weights", encoder.weights_bytes},
               {"encoder_arena", encoder.arena_bytes}};
  add_loops(json, encoder.program);
  return json;
}

/// Returns the section of a media encoder, for images or sound.
Json image_json(const Plan& plan) {
  const PlanOptions& options = plan.options;
  const Plan& encoder = *plan.media_encoder;
  Json json = {{"rows", image_rows(encoder).bound()},
               {"encoder_weights", encoder.weights_bytes},
               {"encoder_arena", encoder.arena_bytes}};
  add_ports(json, encoder.program);
  if (options.media.token >= 0) json["token"] = options.media.token;
  if (options.media.is_sound())
    json["sound"] = {{"rate", options.sound.rate},
                     {"normalized", options.sound.normalized},
                     {"mels", options.sound.mels}};
  if (options.media.known)
    json["pixels"] = {{"rescale", options.media.rescale},
                      {"mean", options.media.mean},
                      {"std", options.media.deviation},
                      {"resize", resize_json(options.media.resize)}};
  json["rounding"] = rounding_json(rounding_of(encoder.program));
  add_loops(json, encoder.program);
  return json;
}

/// Adds the sections of a decoder: sizes, cache, prompt, scratch memory and tokenizer data.
void add_decoder(Json& json, const Plan& plan) {
  const PlanOptions& options = plan.options;
  const Program& program = plan.program;
  json["options"] = {{"quant", options.quant},
                     {"ctx", options.ctx},
                     {"block", options.block},
                     {"kv", to_string(options.kv)},
                     {"cache", options.contiguous ? "contiguous" : "blocked"},
                     {"sequences", options.sequences},
                     {"batch", options.batch},
                     {"pool", plan.kv.blocks},
                     {"chunk", options.chunk},
                     {"threads_max", options.threads_max},
                     {"weights", options.embed_weights ? "embed" : "file"}};
  if (!options.calibration.empty()) json["options"]["calibration"] = options.calibration;
  if (options.requantize) json["options"]["requantize"] = true;
  if (plan.partition) add_accelerator(json, plan);
  if (options.shard.count > 0)
    json["shard"] = {{"index", options.shard.index},
                     {"count", options.shard.count},
                     {"source", fmt::format("{:016x}", options.source_hash)}};
  json["model"] = {{"layers", program.layers},
                   {"hidden", program.hidden_width},
                   {"heads", program.attention.heads},
                   {"kv_heads", program.attention.kv_heads},
                   {"head_dim", program.attention.head_dim},
                   {"vocabulary", program.vocabulary},
                   {"parameters", plan.parameters},
                   {"parameters_per_token", plan.parameters_per_token}};
  if (options.trained_ctx != 0) json["model"]["trained_context"] = options.trained_ctx;
  if (program.positions_max != 0) json["model"]["positions"] = program.positions_max;
  if (!options.tokenizer_file.empty()) {
    json["tokenizer"] = {{"file", options.tokenizer_file}, {"kind", options.tokenizer_kind}};
    if (options.bos_id >= 0) json["tokenizer"]["bos_id"] = options.bos_id;
    json["tokenizer"]["stop_ids"] = options.stop_ids;
    json["tokenizer"]["vocabulary_hash"] = fmt::format("{:016x}", options.vocabulary_hash);
  }
  if (!options.tokenizer_refused.empty()) json["tokenizer_refused"] = options.tokenizer_refused;
  if (options.grammar_bytes > 0)
    json["grammar"] = {{"kind", options.grammar_kind}, {"bytes", options.grammar_bytes}};
  if (!options.prompt_template.empty()) json["prompt_template"] = options.prompt_template;
  if (!options.golden.empty()) json["golden"] = options.golden;
  if (options.budget) json["budget"] = budget_json(*options.budget);
  json["bytes"] = {{"weights", plan.weights_bytes},
                   {"weights_per_token", plan.weights_per_token_bytes},
                   {"arena", plan.arena_bytes},
                   {"kv", plan.kv.bytes},
                   {"scratch", plan.memory.scratch_bytes * plan.in_flight()},
                   {"code", plan.code_bytes},
                   {"code_is_estimate", plan.code_is_estimate}};
  if (plan.state_bytes > 0) {
    json["bytes"]["states"] = plan.state_bytes * options.sequences;
    json["states"] = {{"count", program.states.size()}, {"sequence_bytes", plan.state_bytes}};
  }
  json["kv"] = {{"blocks", plan.kv.blocks},
                {"block", plan.kv.block},
                {"block_bytes", plan.kv.block_bytes},
                {"layer_bytes", plan.kv.layer_bytes},
                {"token_bytes", plan.kv.token_bytes()},
                {"keys", kv_format_name(options.kv.keys)},
                {"values", kv_format_name(options.kv.values)}};
  for (const CacheReads& reads : cache_reads_of(program, options.kv, plan.kv.block))
    json["kv"]["reads"].push_back(
        {{"window", reads.window}, {"chunked", reads.chunked}, {"key_bytes", reads.key_bytes}});
  if (plan.encoder) json["source"] = source_json(plan);
  if (plan.media_encoder) json["image"] = image_json(plan);
  if (plan.prompt.tokens > 0) {
    json["bytes"]["prompt"] = plan.prompt.bytes;
    json["prompt"] = {{"tokens", plan.prompt.tokens},
                      {"blocks", plan.prompt.blocks},
                      {"bytes", plan.prompt.bytes}};
    if (plan.prompt.hash != 0) json["prompt"]["xxh64"] = fmt::format("{:016x}", plan.prompt.hash);
    json["prompt"]["ids"] = options.prompt;
  }
  Json scratch = Json::array();
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (plan.memory.buffers[i].bytes != 0) scratch.push_back(buffer_json(plan, i));
  }
  json["scratch"] = {{"buffers", std::move(scratch)},
                     {"work_offset", plan.memory.work_offset},
                     {"work_bytes", plan.memory.work_bytes}};
}

/// Serializes the plan. Names are copied from the model; invalid UTF-8 becomes U+FFFD.
std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const Plan& plan, std::string_view weights_hash) {
  const PlanOptions& options = plan.options;
  const Program& program = plan.program;
  const bool plain = program.is_plain();
  Json json;
  if (plain) json["kind"] = "function";
  json["name"] = options.name;
  json["target"] = options.target->name;
  json["opt_level"] = options.target->opt_level;
  json["numerics"] = kNumericsVersion;
  if (plain) {
    add_plain(json, plan);
  } else {
    add_decoder(json, plan);
  }
  if (!weights_hash.empty()) json["weights_xxh64"] = weights_hash;
  Json products = Json::array();
  for (const Products& p : products_of(program)) {
    products.push_back(
        {{"part", part_name(p.part)}, {"format", p.format}, {"macs", p.macs}, {"bytes", p.bytes}});
    if (p.split_bytes > 0) products.back()["split_bytes"] = p.split_bytes;
  }
  json["products"] = std::move(products);
  add_loops(json, program);
  json["rounding"] = rounding_json(rounding_of(program));
  Json weights = Json::array();
  for (const PackedWeight& weight : program.weights) weights.push_back(weight_json(weight));
  json["weights"] = std::move(weights);
  return dumped(json, 1);
}

}  // namespace llmc::plan
