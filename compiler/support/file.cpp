#include "compiler/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

namespace llmc {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Closes the file. Returns false on an error: some file systems report a full disk only here.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

Status write_all(FileDescriptor& fd, const std::filesystem::path& path, const char* data,
                 std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd.get(), data, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return system_error(path, "write", errno);
    }
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return ok_status();
}

}  // namespace

Diagnostic system_error(const std::filesystem::path& path, std::string_view what,
                        int error_number) {
  Diagnostic d;
  d.kind = ErrorKind::kBadInput;
  d.file = path.string();
  d.message = "cannot " + std::string(what) + ": " + std::strerror(error_number);
  if (error_number == ENOENT && what == "open")
    d.hint = path.is_relative() ? "check the path; it is relative to the current folder"
                                : "check the path";
  if (error_number == ENOENT && what.starts_with("create"))
    d.hint = "does the folder exist, and can files be created there?";
  if (error_number == ENOTDIR) d.hint = "a part of the path is a file, not a folder";
  if (error_number == ENOSPC) d.hint = "free disk space, or write to another disk";
  if (error_number == EACCES || error_number == EROFS) d.hint = "check the permissions of the path";
  return d;
}

std::string random_suffix() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> letter(0, kLetters.size() - 1);
  std::string suffix;
  for (int i = 0; i < 6; ++i) suffix += kLetters[letter(random)];
  return suffix;
}

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  // With O_NONBLOCK, opening a named pipe does not wait for a writer.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return system_error(path, "open", errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return system_error(path, "read", errno);
  Diagnostic bad;
  bad.file = path.string();
  if (!S_ISREG(info.st_mode)) {
    bad.message = "not a regular file";
    bad.hint = "give a regular file, not a pipe, a device or a folder";
    return bad;
  }
  if (static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    bad.message = "the file has " + std::to_string(info.st_size) + " bytes, more than the " +
                  std::to_string(max_bytes) + " allowed here";
    return bad;
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path, "read", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

Status copy_bytes(const std::filesystem::path& source, std::uint64_t offset, std::uint64_t bytes,
                  std::ostream& out) {
  errno = 0;
  std::ifstream in(source, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  std::vector<char> piece(std::size_t{1} << 20);
  while (bytes > 0 && out) {
    const auto count = std::min<std::uint64_t>(bytes, piece.size());
    in.read(piece.data(), static_cast<std::streamsize>(count));
    if (in.eof())
      return file_failure(ErrorKind::kBadInput, source.string(), "ended while it was copied",
                          "another program may have written to it");
    if (!in) return system_error(source, "read", errno);
    out.write(piece.data(), static_cast<std::streamsize>(count));
    bytes -= count;
  }
  return ok_status();
}

Status create_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return system_error(folder, "create", error.value());
  return ok_status();
}

Status write_file(const std::filesystem::path& path, std::string_view content) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (fd.get() < 0) return system_error(path, "create", errno);
  LLMC_RETURN_IF_ERROR(write_all(fd, path, content.data(), content.size()));
  if (!fd.close()) return system_error(path, "write", errno);
  return ok_status();
}

Status write_file(const std::filesystem::path& path, std::span<const std::byte> content) {
  return write_file(
      path, std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
}

Status replace_file(const std::filesystem::path& path, std::string_view content) {
  // mkstemp is unsuitable because it uses mode 0600: the file must have ordinary permissions.
  std::string temporary;
  int made = -1;
  for (int attempt = 0; attempt < 100 && made < 0; ++attempt) {
    temporary = path.string() + "." + random_suffix();
    made = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made < 0 && errno != EEXIST) break;
  }
  if (made < 0) return system_error(path, "create", errno);
  FileDescriptor fd(made);
  auto written = write_all(fd, path, content.data(), content.size());
  if (written.ok() && ::fsync(fd.get()) != 0) written = system_error(path, "write", errno);
  if (written.ok() && !fd.close()) written = system_error(path, "write", errno);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = system_error(path, "rename into place", errno);
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

}  // namespace llmc
