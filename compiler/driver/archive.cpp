#include "compiler/driver/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

// The System V archive format, which the GNU and LLVM archivers write for ELF, is "!<arch>" and a
// line feed, followed by members. A member is a header of 60 characters and the content, padded to
// an even size.
constexpr std::string_view kMagic = "!<arch>\n";
constexpr std::size_t kHeader = 60, kSizeAt = 48, kSizeWidth = 10;

using Header = std::array<char, kHeader>;

std::optional<std::uint64_t> member_size(const Header& header) {
  if (header[58] != '`' || header[59] != '\n') return std::nullopt;
  std::uint64_t size = 0;
  const char* const begin = header.data() + kSizeAt;
  const auto [end, error] = std::from_chars(begin, begin + kSizeWidth, size);
  if (error != std::errc() || size > (std::uint64_t{1} << 62)) return std::nullopt;
  return size;
}

Diagnostic unknown_form(const fs::path& path) {
  return file_failure(ErrorKind::kToolchain, path.string(),
                      "the archiver wrote no archive of the form that ELF objects have",
                      "use llvm-ar or GNU ar, or --weights=file");
}

struct Member {
  std::uint64_t offset = 0;  // of the header
  Header header{};
};

/// Returns the members of an archive; nullopt if the file is not an archive or is truncated.
std::optional<std::vector<Member>> members_of(std::istream& archive, std::uint64_t bytes) {
  std::array<char, kMagic.size()> magic{};
  archive.read(magic.data(), magic.size());
  if (!archive || std::string_view(magic.data(), magic.size()) != kMagic) return std::nullopt;
  std::vector<Member> members;
  for (std::uint64_t at = kMagic.size(); at < bytes;) {
    Member member{at, {}};
    archive.seekg(static_cast<std::streamoff>(at));
    archive.read(member.header.data(), kHeader);
    const auto size = archive ? member_size(member.header) : std::nullopt;
    if (!size || *size > bytes - at - kHeader) return std::nullopt;
    at += kHeader + *size + *size % 2;
    members.push_back(member);
  }
  return members;
}

}  // namespace

bool is_whole_archive(const fs::path& path) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  return !error && members_of(in, bytes);
}

Status replace_last_member(const fs::path& folder, const std::string& archive,
                           const std::string& content) {
  const fs::path path = folder / archive, source = folder / content;
  std::error_code error;
  const std::uint64_t archive_bytes = fs::file_size(path, error);
  if (error) return system_error(path, "read", error.value());
  const std::uint64_t bytes = fs::file_size(source, error);
  if (error) return system_error(source, "read", error.value());
  std::ifstream before(path, std::ios::binary);
  const auto members = members_of(before, archive_bytes);
  before.close();
  const std::string size = fmt::format("{:<{}}", bytes, kSizeWidth);
  if (!members || members->empty() || size.size() != kSizeWidth) return unknown_form(path);
  Member last = members->back();
  std::ranges::copy(size, last.header.begin() + kSizeAt);
  fs::resize_file(path, last.offset, error);
  if (error) return system_error(path, "write", error.value());
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out.write(last.header.data(), kHeader);
  LLMC_RETURN_IF_ERROR(copy_bytes(source, 0, bytes, out));
  if (bytes % 2 != 0) out.put('\n');
  out.close();
  if (!out) return system_error(path, "write", errno);
  return ok_status();
}

}  // namespace llmc::driver
