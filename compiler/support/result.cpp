#include "compiler/support/result.h"

namespace llmc {

Error::Error(Diagnostic diagnostic) {
  diagnostics_.push_back(std::move(diagnostic));
}

Error::Error(std::vector<Diagnostic> diagnostics) : diagnostics_(std::move(diagnostics)) {
  LLMC_CHECK(!diagnostics_.empty());
}

Error::Error(const Error& other) = default;
Error::Error(Error&& other) noexcept = default;
Error& Error::operator=(const Error& other) = default;
Error& Error::operator=(Error&& other) noexcept = default;
Error::~Error() = default;

}  // namespace llmc
