#include "compiler/driver/output_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <utility>

#include "compiler/support/file.h"

namespace llmc::driver {

struct OutputFile::State {
  std::filesystem::path path;
  int fd = -1;
  XXH64_state_t* hash = XXH64_createState();

  State() { XXH64_reset(hash, 0); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (fd >= 0) ::close(fd);
    XXH64_freeState(hash);
  }
};

OutputFile::OutputFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (state->fd < 0) return system_error(path, "create", errno);
  return OutputFile(std::move(state));
}

Status OutputFile::write(std::span<const std::byte> data) {
  XXH64_update(state_->hash, data.data(), data.size());
  while (!data.empty()) {
    const ssize_t written = ::write(state_->fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(state_->path, "write", errno);
    data = data.subspan(static_cast<std::size_t>(written));
  }
  return ok_status();
}

Status OutputFile::write(std::string_view data) {
  return write(std::as_bytes(std::span(data)));
}

Status OutputFile::patch(std::uint64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written =
        ::pwrite(state_->fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(state_->path, "write", errno);
    data.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return ok_status();
}

void OutputFile::reset_hash() {
  XXH64_reset(state_->hash, 0);
}

std::uint64_t OutputFile::hash() const {
  return XXH64_digest(state_->hash);
}

Status OutputFile::close() {
  if (::close(std::exchange(state_->fd, -1)) != 0)
    return system_error(state_->path, "write", errno);
  return ok_status();
}

}  // namespace llmc::driver
