#ifdef LLMC_HAVE_LIBEDIT

#include <histedit.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <optional>
#include <string>
#include <string_view>

#include "tools/llmc/line_reader.h"

namespace llmc::cli {
namespace {

constexpr int kHistoryLines = 1000;

/// libedit on standard input and output. It reads through get(), so that Ctrl-C ends a line without
/// a race between the signal and the read, and without its own signal handlers.
class LineEditor final : public LineReader {
 public:
  explicit LineEditor(Interrupts& interrupts) : interrupts_(interrupts) {
    editor_ = el_init("llmc", stdin, stdout, stderr);
    history_ = history_init();
    if (editor_ == nullptr || history_ == nullptr) return;
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_PROMPT_ESC, show_prompt, kMark);
    el_set(editor_, EL_GETCFN, get);
    el_source(editor_, nullptr);  // the user's ~/.editrc
    const char* mode = nullptr;
    // In vi mode Escape leaves insert mode, so the mark of a paste cannot be bound.
    takes_pastes_ = el_get(editor_, EL_EDITOR, &mode) == 0 && mode == std::string_view("emacs");
    if (!takes_pastes_) return;
    el_set(editor_, EL_ADDFN, "llmc-paste", "Insert pasted text", insert_paste);
    el_set(editor_, EL_BIND, BracketedPaste::kBegin.data(), "llmc-paste", nullptr);
  }
  ~LineEditor() override {
    if (history_ != nullptr) history_end(history_);
    if (editor_ != nullptr) el_end(editor_);
  }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool works() const { return editor_ != nullptr && history_ != nullptr; }

  Event read(const std::string& prompt, std::string& line) override {
    // These marks enclose bytes without width on the screen.
    prompt_.clear();
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      const std::size_t end = prompt[i] == '\x1b' ? prompt.find('m', i) : prompt.npos;
      if (end == prompt.npos) {
        prompt_ += prompt[i];
        continue;
      }
      prompt_ += kMark + prompt.substr(i, end + 1 - i) + kMark;
      i = end;
    }
    interrupted_ = begun_ = too_long_ = false;
    int count = 0;
    if (takes_pastes_) paste_.emplace();
    // Set up the terminal before the prompt is printed. libedit would do so after it, and the
    // terminal would echo characters that are typed in between.
    el_set(editor_, EL_PREP_TERM, 1);
    const char* const text = el_gets(editor_, &count);
    paste_.reset();
    if (interrupted_) {
      std::fputs("^C\n", stdout);
      std::fflush(stdout);
      return begun_ ? Event::kDiscarded : Event::kInterrupt;
    }
    if (too_long_) return Event::kTooLong;
    if (text == nullptr || count <= 0) {
      std::fputs("\n", stdout);
      std::fflush(stdout);
      return Event::kEnd;
    }
    line.assign(text);
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    return Event::kLine;
  }

  void remember(const std::string& line) override {
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
  }

 private:
  static constexpr char kMark = '\1';

  static LineEditor* self(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return static_cast<LineEditor*>(data);
  }
  static char* show_prompt(EditLine* editor) { return self(editor)->prompt_.data(); }

  /// Reads a character. Returns 1, 0 at the end of the input, -1 on an interrupt.
  static int get(EditLine* editor, wchar_t* character) {
    LineEditor& me = *self(editor);
    std::mbstate_t state = {};
    for (;;) {
      if (me.interrupts_.take()) {
        const LineInfoW* const line = el_wline(editor);
        me.begun_ = line->lastchar != line->buffer || me.pasting_;
        me.interrupted_ = true;
        if (me.takes_pastes_ && !me.pasting_ && line->cursor != line->lastchar) {
          // Move to the end of the line (Ctrl-E in emacs mode), so that later output follows it.
          *character = L'\x05';
          return 1;
        }
      }
      if (me.interrupted_) return -1;
      pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {me.interrupts_.fd(), POLLIN, 0}};
      if (::poll(waiting, 2, -1) < 0) {
        if (errno != EINTR) return -1;
        if (me.interrupts_.flag()) continue;  // the line ends, so do not redraw it
        // The process was stopped and continued, or the window was resized.
        el_set(editor, EL_PREP_TERM, 1);
        el_resize(editor);
        el_set(editor, EL_REFRESH);
        if (me.paste_) me.paste_->renew();
        continue;
      }
      if ((waiting[1].revents & POLLIN) != 0) continue;
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n < 0 ? -1 : 0;
      const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
      if (used == static_cast<std::size_t>(-2)) continue;  // an incomplete character
      if (used == static_cast<std::size_t>(-1)) {
        state = {};
        *character = L'?';
      } else if (used == 0) {
        *character = L'\0';
      }
      return 1;
    }
  }

  /// Inserts pasted text, including line breaks, from its start mark to its end mark.
  static unsigned char insert_paste(EditLine* editor, int) {
    static_assert(BracketedPaste::kEnd.size() == 6);
    constexpr std::wstring_view kEnd = L"\x1b[201~";
    LineEditor& me = *self(editor);
    std::wstring text;
    me.pasting_ = true;
    wchar_t character = 0;
    int got = 0;
    while ((got = get(editor, &character)) == 1) {
      if (character == L'\0') continue;
      // Terminals send carriage returns for line breaks.
      if (character == L'\n' && text.ends_with(L'\r')) text.pop_back();
      text += character;
      if (character == L'~' && text.ends_with(kEnd)) break;
      if (text.size() > kMaxBytes) me.too_long_ = true;
      if (me.too_long_) text.erase(0, text.size() - kEnd.size());
    }
    me.pasting_ = false;
    if (got != 1 || me.too_long_) return CC_EOF;
    text.resize(text.size() - kEnd.size());
    std::ranges::replace(text, L'\r', L'\n');
    if (!text.empty() && el_winsertstr(editor, text.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

  Interrupts& interrupts_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
  std::optional<BracketedPaste> paste_;
  bool takes_pastes_ = false;
  bool interrupted_ = false, begun_ = false;  // begun_: the line was not empty
  bool pasting_ = false, too_long_ = false;
};

/// Sets a UTF-8 locale, even if the environment sets none.
void use_utf8() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

std::unique_ptr<LineReader> line_editor(Interrupts& interrupts) {
  const char* const terminal = ::getenv("TERM");
  const std::string_view name = terminal != nullptr ? terminal : "";
  if (name.empty() || name == "dumb") return plain_reader(&interrupts);
  use_utf8();
  auto editor = std::make_unique<LineEditor>(interrupts);
  if (!editor->works()) return plain_reader(&interrupts);
  return editor;
}

}  // namespace llmc::cli

#endif  // LLMC_HAVE_LIBEDIT
