#include "compiler/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "compiler/support/file.h"

namespace llmc {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "open", errno);
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    const int error = errno;
    ::close(fd);
    return system_error(path, "read", error);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return file_failure(ErrorKind::kBadInput, path.string(), "not a regular file",
                        "give a regular file, not a pipe, a device or a folder");
  }
  std::span<const std::byte> bytes;
  if (info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      return system_error(path, "map", error);
    }
    bytes = {static_cast<const std::byte*>(address), size};
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::drop_pages() const {
  if (!bytes_.empty())
    ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace llmc
