#include "runtime/hosted/mapped_weights.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace llmc::hosted {
namespace {

Failure file_failure(const std::filesystem::path& path, const char* what, int error) {
  return {LLMC_ERROR_FILE, path.string() + ": cannot " + what + ": " + std::strerror(error)};
}

struct Descriptor {
  explicit Descriptor(int fd) : number(fd) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

}  // namespace

Outcome<MappedWeights> MappedWeights::open(const std::filesystem::path& path) {
  // With O_NONBLOCK, opening a fifo does not wait for a writer; the fifo is then rejected.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return file_failure(path, "open", errno);
  struct stat status{};
  if (::fstat(file.number, &status) != 0) return file_failure(path, "inspect", errno);
  if (!S_ISREG(status.st_mode))
    return Failure{LLMC_ERROR_FILE, path.string() + ": not a regular file"};
  if (status.st_size == 0) return Failure{LLMC_ERROR_FILE, path.string() + ": empty file"};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) return file_failure(path, "map", errno);
  return MappedWeights({static_cast<const std::byte*>(address), size});
}

MappedWeights::MappedWeights(MappedWeights&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

MappedWeights& MappedWeights::operator=(MappedWeights&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedWeights::~MappedWeights() {
  unmap(bytes_);
}

void MappedWeights::unmap(std::span<const std::byte> bytes) {
  if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
}

}  // namespace llmc::hosted
