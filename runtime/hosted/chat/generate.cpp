#include "runtime/hosted/chat/generate.h"

namespace llmc::hosted {

llmc_status generate(Sequence& sequence, const Tokenizer& tokenizer, const GenerateOptions& options,
                     Generated& result) {
  result = {};
  StreamDecoder decoder(tokenizer, options.at_start);
  StopTexts stops(options.stop_texts);
  bool wanted = true;
  const auto give = [&](const std::string& text) {
    if (text.empty()) return;
    result.text += text;
    if (options.on_text && wanted) wanted = options.on_text(text);
  };
  const auto run = [&]() -> llmc_status {
    if (const llmc_status bad = sequence.begin_text()) return bad;
    for (;;) {
      if (result.ids.size() >= options.max_tokens) {
        result.why = Stopped::kLength;
        return LLMC_OK;
      }
      if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
        result.why = Stopped::kCancelled;
        return LLMC_OK;
      }
      std::int32_t token = -1;
      if (const llmc_status bad = sequence.sample(token)) return bad;
      if (options.is_stop && options.is_stop(token)) {
        result.why = Stopped::kStopToken;
        result.stop_token = token;
        return LLMC_OK;
      }
      result.ids.push_back(token);
      give(stops.add(decoder.add(token)));
      if (stops.found() || !wanted) {
        result.why = stops.found() ? Stopped::kStopText : Stopped::kCaller;
        return LLMC_OK;
      }
      if (result.ids.size() >= options.max_tokens) continue;  // the next token is not needed
      if (sequence.position() == sequence.context()) {
        bool made = false;
        const std::span<const std::int32_t> ran(result.ids.data(), result.run);
        if (const llmc_status bad = options.make_room ? options.make_room(ran, made) : LLMC_OK)
          return bad;
        if (!made) {
          result.why = Stopped::kContext;
          return LLMC_OK;
        }
      }
      if (const llmc_status bad = sequence.append(std::span(&token, 1))) return bad;
      ++result.run;
      bool complete = false;
      if (const llmc_status bad = sequence.text_is_complete(complete)) return bad;
      if (complete) {
        result.why = Stopped::kComplete;
        return LLMC_OK;
      }
    }
  };
  const llmc_status status = run();
  const std::string rest = stops.found() ? std::string() : decoder.finish();
  result.exact = !stops.found() && rest.empty();
  give(stops.add(rest));
  give(stops.finish());
  return status;
}

}  // namespace llmc::hosted
