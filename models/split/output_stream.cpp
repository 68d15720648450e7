#include "models/split/output_stream.h"

#include <algorithm>
#include <cerrno>

#include "compiler/support/file.h"

namespace llmc::models {

Result<OutputStream> OutputStream::create(const std::filesystem::path& path) {
  OutputStream stream(path);
  errno = 0;
  stream.file_.open(path, std::ios::binary | std::ios::trunc);
  if (!stream.file_) return system_error(path, "create", errno);
  return stream;
}

Status OutputStream::check() const {
  if (file_) return ok_status();
  return system_error(path_, "write", errno);
}

Status OutputStream::write(std::string_view bytes) {
  errno = 0;
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return check();
}

Status OutputStream::write_halves(
    std::uint64_t count,
    const std::function<void(std::uint64_t first, std::span<std::uint16_t> out)>& fill) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 16;
  std::vector<std::uint16_t> piece(static_cast<std::size_t>(std::min(count, kPiece)));
  for (std::uint64_t first = 0; first < count; first += kPiece) {
    const auto out =
        std::span(piece).first(static_cast<std::size_t>(std::min(count - first, kPiece)));
    fill(first, out);
    const auto bytes = std::as_bytes(out);
    LLMC_RETURN_IF_ERROR(write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return ok_status();
}

Status OutputStream::close() {
  errno = 0;
  file_.close();
  return check();
}

}  // namespace llmc::models
