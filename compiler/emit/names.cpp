#include "compiler/emit/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/model_folders.h"

namespace llmc::emit {
namespace {

constexpr std::size_t kMaxName = 64;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

/// Reserved names. NAME itself is never an identifier in emitted code, but a header that is named
/// after a keyword is error-prone. "linux" and "unix" are macros of GNU compilers.
constexpr std::string_view kReserved[] = {
    "alignas",  "alignof",  "and",      "asm",      "auto",    "bool",      "break",    "case",
    "catch",    "char",     "class",    "concept",  "const",   "constexpr", "continue", "decltype",
    "default",  "delete",   "do",       "double",   "else",    "enum",      "explicit", "export",
    "extern",   "false",    "float",    "for",      "friend",  "goto",      "if",       "inline",
    "int",      "linux",    "long",     "main",     "mutable", "namespace", "new",      "noexcept",
    "not",      "nullptr",  "operator", "or",       "private", "protected", "public",   "register",
    "requires", "restrict", "return",   "short",    "signed",  "sizeof",    "static",   "std",
    "struct",   "switch",   "template", "this",     "throw",   "true",      "try",      "typedef",
    "typename", "union",    "unix",     "unsigned", "using",   "virtual",   "void",     "volatile",
    "while",    "xor"};

bool is_reserved(std::string_view name) {
  return std::ranges::find(kReserved, name) != std::end(kReserved);
}

/// Top-level headers of C, POSIX and Linux, without ".h". With -I of the bundle's folder, NAME.h
/// would shadow them, even for includes in system headers.
constexpr std::string_view kSystemHeaders[] = {
    "aio",      "aliases",   "alloca",    "ar",        "argp",     "argz",      "assert",
    "byteswap", "complex",   "cpio",      "cpuid",     "crypt",    "ctype",     "dirent",
    "dlfcn",    "elf",       "endian",    "envz",      "err",      "errno",     "error",
    "execinfo", "expat",     "fcntl",     "features",  "fenv",     "float",     "fmtmsg",
    "fnmatch",  "fstab",     "fts",       "ftw",       "gconv",    "getopt",    "glob",
    "grp",      "gshadow",   "iconv",     "ifaddrs",   "inttypes", "iso646",    "langinfo",
    "lastlog",  "libgen",    "libintl",   "limits",    "link",     "locale",    "malloc",
    "math",     "mcheck",    "memory",    "mntent",    "monetary", "mqueue",    "ndbm",
    "netdb",    "nl_types",  "nss",       "obstack",   "omp",      "paths",     "poll",
    "printf",   "pthread",   "pty",       "pwd",       "re_comp",  "regex",     "regexp",
    "resolv",   "sched",     "search",    "semaphore", "setjmp",   "sgtty",     "shadow",
    "signal",   "spawn",     "stab",      "stdalign",  "stdarg",   "stdatomic", "stdbit",
    "stdbool",  "stdckdint", "stddef",    "stdint",    "stdio",    "stdlib",    "stdnoreturn",
    "string",   "strings",   "stropts",   "syscall",   "sysexits", "syslog",    "tar",
    "termio",   "termios",   "tgmath",    "thread_db", "threads",  "time",      "trace",
    "ttyent",   "uchar",     "ucontext",  "ulimit",    "unistd",   "unwind",    "utime",
    "utmp",     "utmpx",     "values",    "varargs",   "wait",     "wchar",     "wctype",
    "windows",  "wordexp",   "xmmintrin", "zlib"};

/// Returns whether NAME.h matches a system header on a case-insensitive file system: one of these,
/// or a header of intrinsics.
bool is_system_header(std::string_view name) {
  std::string small(name);
  std::ranges::transform(small, small.begin(), lower);
  return small.ends_with("intrin") ||
         std::ranges::find(kSystemHeaders, small) != std::end(kSystemHeaders);
}

std::optional<std::string> problem(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxName) return fmt::format("is longer than {} characters", kMaxName);
  if (!is_letter(name.front())) return "does not begin with a letter";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!is_letter(c) && !is_digit(c) && c != '_') return "has other than letters, digits and _";
    if (c == '_' && (i + 1 == name.size() || name[i + 1] == '_')) return "has a double or last _";
  }
  if (is_reserved(name)) return "is a reserved word";
  if (is_system_header(name)) return "is that of a system header, which NAME.h would hide";
  if (name.starts_with("llmc")) return "begins with llmc, which the runtime uses";
  return std::nullopt;
}

constexpr std::string_view kOnnxSuffix = ".onnx";

/// Returns the absolute path without "." and "..".
std::filesystem::path whole_path(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path whole = std::filesystem::absolute(path, ignored).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Returns the variant in a generic model file name: "model" -> "", "model_q4" -> "q4",
/// "decoder_model_merged" -> "decoder_merged". Returns nullopt for a specific name.
std::optional<std::string> variant_of(std::string_view stem) {
  if (stem == "llm") return "";
  const auto begins = [&](std::string_view words) {
    return stem == words ||
           (stem.starts_with(words) && stem.size() > words.size() && stem[words.size()] == '_');
  };
  if (begins("decoder_with_past_model")) return "decoder_with_past" + std::string(stem.substr(23));
  for (const std::string_view part : {"", "decoder_", "encoder_"}) {
    if (!begins(std::string(part) + "model")) continue;
    std::string variant(stem);
    variant.erase(part.size(), std::string_view("model_").size());
    if (variant.ends_with('_')) variant.pop_back();
    return variant;
  }
  return std::nullopt;
}

/// Returns the name of the folder. In the Hugging Face cache, models--OWNER--NAME/snapshots/COMMIT,
/// returns the name of the repository.
std::string repository_name(const std::filesystem::path& folder) {
  const std::filesystem::path snapshots = folder.parent_path();
  const std::string repository = snapshots.parent_path().filename().string();
  if (snapshots.filename() == "snapshots" && repository.starts_with("models--"))
    return repository.substr(repository.rfind("--") + 2);
  return folder.filename().string();
}

/// Returns the name of a model's folder, or of its parent if the folder only contains the graphs.
std::string folder_name(const std::filesystem::path& model) {
  return repository_name(whole_path(model_folders(model).back()));
}

}  // namespace

Status check_name(std::string_view name) {
  const auto what = problem(name);
  if (!what) return ok_status();
  return usage_error(fmt::format("the name '{}' {}", printable(name, 80), *what),
                     "--name takes a C identifier such as tiny_model");
}

std::string derive_name(const std::filesystem::path& model) {
  std::filesystem::path path = model.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  if (path.filename() == "." || path.filename() == "..") path = whole_path(model);
  std::string stem = path.filename().string();
  if (stem.ends_with(kOnnxSuffix)) {
    stem.resize(stem.size() - kOnnxSuffix.size());
    if (const auto variant = variant_of(stem))
      if (const std::string folder = folder_name(path); !folder.empty())
        stem = variant->empty() ? folder : folder + "_" + *variant;
  } else {
    stem = folder_name(path);
  }
  std::string name;
  for (const char c : stem) {
    if (is_letter(c) || is_digit(c)) {
      name += lower(c);
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  name.resize(std::min(name.size(), kMaxName - 6));
  while (!name.empty() && name.back() == '_') name.pop_back();
  return problem(name) ? "model" + (name.empty() ? "" : "_" + name) : name;
}

std::string comment_text(std::string_view untrusted, std::size_t max_bytes) {
  constexpr std::string_view kHarmless = " _./:+-()[],=<>@";
  std::string text;
  const std::string_view kept = untrusted.substr(0, max_bytes);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const char c = kept[i];
    if (c == '"') continue;
    // In sizes such as 4*n and 64 * n * m.
    const bool tight =
        c == '*' && i > 0 && i + 1 < kept.size() && is_digit(kept[i - 1]) && is_letter(kept[i + 1]);
    const bool product = tight || kept.substr(std::max<std::size_t>(i, 1) - 1, 3) == " * ";
    const bool harmless = is_letter(c) || is_digit(c) || kHarmless.find(c) != kHarmless.npos;
    text += product || harmless ? c : '_';
  }
  // Other "*" were replaced, so "/*" and "*/" cannot occur. "//" is changed too.
  for (std::size_t at = 0; (at = text.find("//", at)) != text.npos;) text[at + 1] = '_';
  if (untrusted.size() > max_bytes) text += "...";
  return text;
}

std::string line_comment(std::string_view comment) {
  std::string text(comment);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends = i > 0 && text[i - 1] == '*' && text[i] == '/';
    const bool trigraph = i > 0 && text[i - 1] == '?' && text[i] == '?';
    if (text[i] < ' ' || text[i] > '~' || text[i] == '\\' || ends || trigraph) text[i] = '_';
  }
  return text;
}

std::string type_name(std::string_view snake) {
  std::string name;
  bool start = true;
  for (const char c : snake) {
    if (c == '_') {
      start = true;
      continue;
    }
    name += start ? upper(c) : c;
    start = false;
  }
  return name;
}

std::string constant_name(std::string_view snake) {
  return "k" + type_name(snake);
}

std::string macro_name(std::string_view name) {
  std::string macro(name);
  std::ranges::transform(macro, macro.begin(), upper);
  return macro;
}

std::string float_literal(float value) {
  if (std::isnan(value)) return "__builtin_nanf(\"\")";
  if (std::isinf(value)) return value > 0 ? "__builtin_inff()" : "-__builtin_inff()";
  std::string text =
      fmt::format("{}", value);  // shortest text that converts back to the same value
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text + "f";
}

std::string origin_comment(const ir::Origin& origin) {
  const std::string file = comment_text(origin.file, 60);
  const std::string node = comment_text(origin.node);
  if (file.empty() && node.empty()) return {};
  return fmt::format("  // {}{}{}\n", file, !file.empty() && !node.empty() ? " " : "", node);
}

}  // namespace llmc::emit
