#include "compiler/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "compiler/support/check.h"
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
    Diagnostic d;
    d.file = path.string();
    d.message = "not a regular file";
    return d;
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

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  if (part.empty()) return;
  LLMC_CHECK(part.data() >= bytes_.data() &&
             part.data() + part.size() <= bytes_.data() + bytes_.size());
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - bytes_.data());
  const std::size_t begin = offset / page * page;  // a mapping begins with a page
  // Advice: what cannot be dropped stays.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, offset + part.size() - begin,
            MADV_DONTNEED);
}

}  // namespace llmc
