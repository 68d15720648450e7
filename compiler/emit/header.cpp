#include <fmt/format.h>

#include "compiler/emit/descriptor.h"
#include "compiler/emit/media_encoder.h"
#include "compiler/emit/names.h"
#include "compiler/emit/ports.h"
#include "compiler/emit/run_entry.h"
#include "compiler/emit/source.h"
#include "compiler/emit/wrap.h"
#include "compiler/plan/embeddings.h"
#include "llmc/model.h"

namespace llmc::emit {
namespace {

using plan::Plan;

constexpr std::string_view kHeaderEnd = "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";

/// Returns the beginning of NAME.h. `what` describes the library. `include`: the header that it
/// includes.
std::string header_begin(const Plan& plan, std::string_view what, std::string_view include) {
  return fmt::format(
      "/*\n"
      " * {0}: {1},\n"
      " * compiled for {2} by llmc {3}.\n"
      " * Link lib{0}.a.\n"
      " * It needs memcpy, memset, memmove and memcmp, and nothing else.\n"
      " */\n"
      "#ifndef {4}_H\n#define {4}_H\n\n"
      "#include \"{5}\"\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      plan.options.name, what, target::described(*plan.options.target), kCompilerVersion,
      macro_name(plan.options.name), include);
}

/// Returns the macros with token ids for programs that have no tokenizer.
std::string token_ids(const Plan& plan, const std::string& macro) {
  const plan::PlanOptions& options = plan.options;
  std::string text;
  if (options.bos_id >= 0) {
    text += fmt::format("\n/* A prompt starts with this id. */\n#define {}_BOS_ID {}\n", macro,
                        options.bos_id);
  }
  if (!options.start_ids.empty()) {
    text += fmt::format(
        "\n/* The text of each source starts with these ids: `static const int32_t start[] = "
        "{0}_START_IDS;` */\n"
        "#define {0}_START_COUNT {1}\n#define {0}_START_IDS {{{2}}}\n",
        macro, options.start_ids.size(), fmt::join(options.start_ids, ", "));
  }
  if (!options.stop_ids.empty()) {
    text += fmt::format(
        "\n/* A text ends with any of these ids: `static const int32_t stop[] = {0}_STOP_IDS;` */\n"
        "#define {0}_STOP_COUNT {1}\n#define {0}_STOP_IDS {{{2}}}\n",
        macro, options.stop_ids.size(), fmt::join(options.stop_ids, ", "));
  }
  return text;
}

std::string session_header(const Plan& plan, std::uint64_t weights_hash) {
  const std::string& name = plan.options.name;
  const std::string macro = macro_name(name);
  const std::uint64_t embedding = plan::embedding_width(plan.program);
  std::string text =
      header_begin(plan, "a language model", embedding == 0 ? "llmc/llmc.h" : "llmc/embeddings.h");
  text += fmt::format(
      "/* Size in bytes of the arena for {0}_init,\n"
      "   with the tokens and threads of the next macros. The arena must be aligned to "
      "LLMC_ALIGNMENT.\n"
      "   Nothing else is allocated. */\n",
      name);
  const auto constant = [&](const char* what, std::uint64_t value, const std::string& comment) {
    const std::string code = fmt::format("#define {}_{} {}u", macro, what, value);
    text += comment.empty() ? code + "\n"
                            : fmt::format("{:<{}} /* {} */\n", code, macro.size() + 38, comment);
  };
  constant("ARENA_BYTES", plan.arena_bytes, "");
  constant("CTX", plan.options.ctx, "tokens of a sequence");
  if (plan.encoder) {
    const std::uint64_t width = plan::source_width(*plan.encoder);
    constant("SOURCE_WIDTH", width,
             width == 0   ? "a source is token ids"
             : width == 1 ? "a source is samples"
                          : "features of a frame");
    constant("SOURCE_MIN", plan.options.source_min, "");
    constant("SOURCE_MAX", plan.options.source_max,
             fmt::format("{} of a source", plan::source_unit(width)));
    constant("SOURCES", plan.options.sources,
             plan.options.sources == 1 ? "all sequences attend to one" : "maximum in a session");
  }
  if (embedding > 0) constant("EMBEDDING_WIDTH", embedding, "elements of an embedding");
  if (embedding > 0 && plan.program.position_axes > 0)
    constant("POSITION_AXES", plan.program.position_axes,
             "positions of an embedding, for llmc_append_embeddings_at");
  constant("VOCAB", plan.program.vocabulary, "logits; token ids are 0 .. VOCAB-1");
  constant("CHUNK", plan.options.chunk, "tokens of a prompt that are run at once");
  constant("SEQUENCES", plan.options.sequences, "maximum number in a session");
  constant("BATCH", plan.options.batch, "maximum number stepped together");
  constant("KV_BLOCK", plan.options.block, "tokens of a cache block");
  constant("KV_BLOCKS", plan.kv.blocks, "of the cache, for all sequences together");
  constant("KV_BYTES", plan.kv.bytes, "of the cache, inside the arena");
  constant("THREADS_MAX", plan.options.threads_max, "worker slots");
  constant("WEIGHTS_BYTES", plan.weights_bytes,
           plan.options.embed_weights
               ? std::string("read-only, in the library")
               : fmt::format("read-only, in {}.weights.bin after a header of 64 bytes", name));
  if (plan.prompt.tokens > 0) {
    constant("PROMPT_TOKENS", plan.prompt.tokens, "that every sequence begins with");
    constant("PROMPT_BYTES", plan.prompt.bytes, "of their cache, read-only, in the library");
  }
  text += fmt::format("#define {}_WEIGHTS_XXH64 0x{:016x}u\n", macro, weights_hash);
  text += token_ids(plan, macro);
  if (plan.options.grammar_bytes > 0) {
    text += fmt::format(
        "\n/* Tables of the grammar that was compiled in ({2}), for llmc_grammar_init.\n"
        "   Not linked unless referenced. */\n"
        "#define {1}_GRAMMAR_BYTES {3}u\n"
        "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
        "extern const unsigned char {0}_grammar[{1}_GRAMMAR_BYTES];\n",
        name, macro, plan.options.grammar_kind == "gbnf" ? "GBNF" : "a JSON schema",
        plan.options.grammar_bytes);
  }
  text += fmt::format(
      "\n/* Builds a session in arena[0 .. bytes); see llmc_session_init. {1}. "
      "*/\n"
      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
      "llmc_status\n{0}_init(llmc_session** session, void* arena, size_t bytes, const llmc_config* "
      "config);\n\n"
      "{3}"
      "/* The model itself, for llmc_session_init. */\n"
      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
      "extern const llmc_model {0}_model;\n\n{2}",
      name, plan.options.embed_weights ? "config may be NULL" : "config gives the weights",
      kHeaderEnd, encode_declaration(plan) + image_declarations(plan));
  return text;
}

std::string run_header(const Plan& plan) {
  const std::string& name = plan.options.name;
  const std::string macro = macro_name(name);
  std::string text = header_begin(plan, "a graph", "llmc/run.h");
  text += fmt::format(
      "/* Bytes of the arena, aligned to 64. Nothing in it survives a call. */\n"
      "#define {0}_ARENA_BYTES {1}\n"
      "#define {0}_THREADS_MAX {2}\n"
      "#define {0}_INPUTS {3}\n"
      "#define {0}_OUTPUTS {4}\n",
      macro, plan.arena_bytes, plan.options.threads_max, plan.program.inputs.size(),
      plan.program.outputs.size());
  if (!has_weights_input(plan))
    text += fmt::format("/* Read-only, in the library. */\n#define {}_WEIGHTS_BYTES {}\n", macro,
                        plan.weights_bytes);
  text += port_macros(plan.program, macro);
  if (has_weights_input(plan))
    text += fmt::format(
        "\n/* After the inputs one more: the content of {0}.weights.bin, aligned to 64.\n"
        "   WEIGHTS_BYTES includes its header of 64 bytes. */\n"
        "#define {1}_INPUT_WEIGHTS {2}\n#define {1}_WEIGHTS_BYTES {3}\n",
        name, macro, plan.program.inputs.size(), plan.weights_bytes + sizeof(llmc_weights_header));
  text += fmt::format(
      "\n/* Computes the outputs. Tensors are row-major without padding, aligned to their "
      "elements;\n"
      "   f16 and bf16 are 16-bit patterns, a bool is a byte, 0 or 1. Outputs overlap nothing "
      "else.\n"
      "   Returns 0; 1 when a pointer is NULL or the arena not aligned; 2 when an index in the "
      "data\n"
      "   is outside its tensor: the outputs are undefined then; 4 when the weights are\n"
      "   another model's. No allocation, no state: calls with different arenas and outputs may "
      "run\n"
      "   at the same time. */\n"
      "int {0}_run(const void* const* inputs, void* const* outputs, void* arena);\n\n"
      "/* The same on several threads; the bits do not depend on their number. `options` may be\n"
      "   NULL. Returns 3 for options that are not valid. */\n"
      "int {0}_run_with(const void* const* inputs, void* const* outputs, void* arena, const "
      "llmc_run_options* options);\n\n"
      "/* Whether this processor has the instructions the code was compiled for. */\n"
      "int {0}_supported(void);\n\n{1}",
      name, kHeaderEnd);
  return text;
}

}  // namespace

std::string header(const Plan& plan, std::uint64_t weights_hash) {
  return wrapped(plan.program.is_plain() ? run_header(plan) : session_header(plan, weights_hash));
}

}  // namespace llmc::emit
