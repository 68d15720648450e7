#include "tools/llmc/cli.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "compiler/support/file.h"
#include "compiler/support/signal_cleanup.h"

namespace llmc::cli {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t kRedrawNs = 80'000'000, kLogNs = 60'000'000'000;

/// Returns PREFIX/share/doc/llmc/, where PREFIX/bin/llmc is this program; empty if it contains no
/// pages.
std::string find_docs() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = program.parent_path().parent_path() / LLMC_INSTALL_DOCDIR;
  if (error || !std::filesystem::exists(folder / "docs/cli.md", error)) return {};
  return folder.string() + "/";
}

}  // namespace

std::string with_docs_folder(std::string text) {
  static const std::string folder = find_docs();
  constexpr std::string_view kPages = "docs/";
  for (std::size_t at = 0; !folder.empty() && (at = text.find(kPages, at)) != text.npos;) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    if (begins) text.insert(at, folder);
    at += kPages.size() + (begins ? folder.size() : 0);
  }
  return text;
}

int fail(const Error& error) {
  std::fflush(stdout);  // keep the order of both streams
  const std::vector<Diagnostic>& all = error.diagnostics();
  for (std::size_t i = 0; i < all.size(); ++i) {
    Diagnostic d = all[i];
    // A hint that several errors share is printed once, with the last of them.
    for (std::size_t k = i + 1; k < all.size(); ++k)
      if (all[k].hint == d.hint) d.hint.clear();
    d.hint = with_docs_folder(std::move(d.hint));
    print_error_line(format(d));
  }
  return exit_code(error.first().kind);
}

void print_error_line(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

namespace {

std::string without_controls(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    // U+0080 to U+009F are control characters of some terminals.
    const bool high =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (high) ++i;
    if (!control && !high) result += text[i];
  }
  return result;
}

}  // namespace

void print_text(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  print(terminal ? without_controls(text) : text);
}

void print_json(const Json& value) {
  // Names from a model may have invalid UTF-8: replace it instead of throwing.
  print(value.dump(2, ' ', false, Json::error_handler_t::replace));
  print("\n");
}

void print_json_line(const Json& value) {
  print(value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  std::fflush(stdout);
}

void flush_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) end_by_signal(SIGPIPE);
}

bool finish_stdout() {
  flush_stdout();
  return std::ferror(stdout) == 0;
}

void note(const Globals& globals, std::string_view text) {
  if (!globals.quiet) print_error_line(text);
}

void remark(const Globals& globals, std::string_view text) {
  note(globals, fmt::format("llmc: note: {}", text));
}

std::function<void(const Diagnostic&)> warn_once(const Globals& globals) {
  return [&globals, shown = std::make_shared<std::set<std::string>>()](const Diagnostic& warning) {
    constexpr std::string_view kError = "llmc: error: ";
    std::string text = format(warning);
    LLMC_CHECK(text.starts_with(kError));
    text.replace(0, kError.size(), "llmc: warning: ");
    if (!shown->insert(text).second) return;
    if (stderr_is_terminal()) text.insert(0, "\r\x1b[K");  // overwrites a progress line
    note(globals, text);
  };
}

Status check_output_file(std::string_view option, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return ok_status();
  std::error_code error;
  if (fs::is_directory(path, error))
    return file_failure(ErrorKind::kBadInput, path, "is a folder",
                        fmt::format("{} takes the name of a file", option));
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error))
    return file_failure(ErrorKind::kBadInput, path,
                        "the folder " + printable(folder.string()) + " does not exist",
                        fmt::format("create it, or use another {}", option));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return system_error(folder, "create files", errno);
  return ok_status();
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

std::string last_component(const std::filesystem::path& path) {
  const std::filesystem::path normal = path.lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

Progress::Progress(const Globals& globals)
    : shown_(!globals.quiet), terminal_(stderr_is_terminal()) {}

Progress::~Progress() {
  clear();
}

void Progress::update(std::string_view phase, std::uint64_t done, std::uint64_t total) {
  if (!shown_) return;
  const std::int64_t now = now_ns();
  if (phase != phase_) {
    phase_ = phase;
    started_ns_ = now;
    last_ns_ = terminal_ ? 0 : now;
  }
  if (now - last_ns_ < (terminal_ ? kRedrawNs : kLogNs)) return;
  last_ns_ = now;
  std::string line = phase_;
  if (total > 0) {
    const double part = static_cast<double>(done) / static_cast<double>(total);
    constexpr int kWidth = 24;
    const int filled = static_cast<int>(part * kWidth);
    if (terminal_) line += fmt::format(" [{:=<{}}{: <{}}]", "", filled, "", kWidth - filled);
    line += fmt::format(" {:{}.0f} %", part * 100, terminal_ ? 3 : 1);
    const double elapsed_s = static_cast<double>(now - started_ns_) * 1e-9;
    if (part > 0.02 && elapsed_s > 1)
      line += fmt::format(", {:.0f} s left", elapsed_s / part - elapsed_s);
  }
  if (!terminal_) return print_error_line("llmc: " + line);
  std::fputs(("\r\x1b[K" + line).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

}  // namespace llmc::cli
