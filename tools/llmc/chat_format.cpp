#include "tools/llmc/chat_format.h"

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/chat_files.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::cli {

Result<hosted::ChatFormat> chat_format(hosted::ChatDescription description,
                                       const hosted::Tokenizer& tokenizer, const std::string& model,
                                       const std::string& hint) {
  auto format = hosted::ChatFormat::create(std::move(description), tokenizer);
  if (format.ok()) return *std::move(format);
  return file_failure(ErrorKind::kUnsupported, model, printable(format.failure().message, 1000),
                      hint);
}

Result<CompiledPrompt> compiled_prompt(const exec::NativeModel& native) {
  CompiledPrompt prompt;
  if (native.model().prompt_tokens == 0) return prompt;
  LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(native.bundle()));
  LLMC_TRY(hosted::ChatDescription description, driver::chat_of(native.bundle()));
  if (facts.prompt.size() != native.model().prompt_tokens) {
    return file_failure(
        ErrorKind::kBadInput, native.bundle().string(),
        "damaged bundle: the system prompt in its plan.json differs from that of its "
        "library",
        "compile the model again");
  }
  if (!description.system_message.empty()) prompt = {description.system_message, facts.prompt};
  return prompt;
}

void add_stop_texts(CLI::App& app, const std::string& names, std::vector<std::string>& texts) {
  const auto take = [&texts](const CLI::results_t& results) {
    texts.clear();
    for (const std::string& text : results) {
      if (text.empty()) throw CLI::ValidationError("--stop needs a nonempty text");
      if (!hosted::is_utf8(text)) throw CLI::ValidationError("--stop needs valid UTF-8");
      texts.push_back(text);
    }
    return true;
  };
  app.add_option(names, take, "Text that ends the generation, not printed; may be repeated")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false)
      ->type_name("TEXT");
}

const char* stop_name(hosted::Stopped why) {
  switch (why) {
    case hosted::Stopped::kStopToken:
      return "stop";
    case hosted::Stopped::kStopText:
      return "stop_text";
    case hosted::Stopped::kLength:
      return "length";
    case hosted::Stopped::kContext:
      return "context";
    case hosted::Stopped::kComplete:
      return "grammar";
    default:
      return "cancelled";
  }
}

}  // namespace llmc::cli
