#include "compiler/exec/native_library.h"

#include <optional>

#include "compiler/driver/library_status.h"
#include "runtime/hosted/device/opencl_device.h"
#include "runtime/hosted/device/reference_device.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/model_library.h"
#include "runtime/hosted/thread_pool.h"
#include "runtime/runner/model_facts.h"

namespace llmc::exec {
namespace {

/// The accelerator of a model with regions.
struct Accelerator {
  std::shared_ptr<void> owner;
  const llmc_device* device = nullptr;  // nullptr: none
  std::string name = {};
  std::function<std::uint64_t()> copied_bytes = {};
};

Diagnostic device_error(const hosted::Failure& failed) {
  return {.kind = driver::kind_of(failed.status),
          .message = printable(failed.message),
          .hint = failed.hint};
}

/// Creates the accelerator that a model was compiled for.
Result<Accelerator> create_accelerator(const std::string& name,
                                       const hosted::OpenClOptions& options,
                                       std::uint32_t threads) {
  if (name == "opencl") {
    auto created = hosted::OpenClDevice::create(options);
    if (!created.ok()) return device_error(created.failure());
    const std::shared_ptr<hosted::OpenClDevice> opencl = *std::move(created);
    return Accelerator{opencl, &opencl->device(), name + ", " + printable(opencl->name()),
                       [raw = opencl.get()] { return raw->copied_bytes(); }};
  }
  if (name != "reference" && name != "simulated")
    return failure(ErrorKind::kUnsupported, "the bundle was compiled for another accelerator");
  auto created = hosted::ReferenceDevice::create(threads);
  if (!created.ok()) return device_error(created.failure());
  const std::shared_ptr<hosted::ReferenceDevice> reference = *std::move(created);
  return Accelerator{reference, &reference->device(), name, [] { return std::uint64_t{0}; }};
}

struct LoadedSession {
  std::unique_ptr<hosted::ThreadPool> pool;  // must outlive the session, which calls it
  std::unique_ptr<hosted::LibrarySession> session;
  Accelerator accelerator;  // destroyed before the session, whose memory it uses
};

class LoadedModel final : public NativeModel {
 public:
  LoadedModel(LinkedModel linked, std::optional<hosted::MappedWeights> weights,
              std::unique_ptr<hosted::ModelLibrary> library, HugePageOptions huge_pages,
              hosted::OpenClOptions opencl)
      : NativeModel(std::move(linked),
                    runner::facts_of(library->model(), library->grammar().size()), {}),
        opencl_(std::move(opencl)),
        weights_(std::move(weights)),
        library_(std::move(library)) {
    opencl_.kernels = NativeModel::linked().kernels_file();
    const llmc_model& model = library_->model();
    const std::size_t embedded = model.weights == nullptr ? 0 : model.weights_bytes;
    const std::span<const std::byte> read =
        weights_ ? weights_->bytes() : std::as_bytes(std::span(model.weights, embedded));
    set_huge_pages(use_huge_pages(huge_pages, read, model.arena_bytes));
  }

 private:
  Result<SessionHandle> open(const SessionOptions& options) const override {
    auto pool = hosted::ThreadPool::create(options.threads);
    if (!pool.ok()) return failure(ErrorKind::kBadInput, pool.failure().message);
    llmc_config config = {};
    config.size = sizeof config;
    config.threads = options.threads;
    config.chunk = options.chunk;
    config.cores = options.cores;
    config.begin = options.begin;
    config.full_context = options.full_context;
    config.keep_first = options.keep_first;
    if (options.threads > 1) {
      config.parallel_for = hosted::ThreadPool::run;
      config.parallel_user = pool->get();
    }
    Accelerator device;
    if (library_->model().steps > 0 && options.use_device) {
      LLMC_TRY(device,
               create_accelerator(options.device.empty() ? linked().facts.device : options.device,
                                  opencl_, options.threads));
      config.device = device.device;
    }
    if (weights_) {
      config.weights = weights_->bytes().data();
      config.weights_bytes = weights_->bytes().size();
    }
    auto session = library_->start(config, NativeModel::huge_pages().arena);
    if (!session.ok()) {
      return file_failure(driver::kind_of(session.failure().status), linked().path.string(),
                          printable(session.failure().message));
    }
    const hosted::LibrarySession& started = **session;
    const Accelerator used = device;
    return SessionHandle{.owner = std::make_shared<LoadedSession>(
                             *std::move(pool), *std::move(session), std::move(device)),
                         .api = &started.api(),
                         .session = started.handle(),
                         .message = &started.last_message(),
                         .failure = nullptr,
                         .device = used.name,
                         .copied_bytes = used.copied_bytes,
                         .grammar = library_->grammar()};
  }

  hosted::OpenClOptions opencl_;
  const std::optional<hosted::MappedWeights> weights_;  // set if the weights are in a file
  const std::unique_ptr<hosted::ModelLibrary> library_;
};

}  // namespace

Result<std::unique_ptr<NativeModel>> load_library(LinkedModel linked, HugePageOptions huge_pages,
                                                  const hosted::OpenClOptions& opencl) {
  std::optional<hosted::MappedWeights> weights;
  if (!linked.facts.embed_weights) {
    auto mapped = hosted::MappedWeights::open(linked.weights_file());
    if (!mapped.ok()) {
      return file_failure(ErrorKind::kBadInput, linked.path.string(),
                          "damaged bundle: " + printable(mapped.failure().message),
                          "compile the model again");
    }
    weights.emplace(*std::move(mapped));
  }
  auto library = hosted::ModelLibrary::open(linked.binary, linked.facts.name);
  if (!library.ok()) {
    const ErrorKind kind = driver::kind_of(library.failure().status);
    return file_failure(kind, linked.path.string(), printable(library.failure().message),
                        kind == ErrorKind::kBadInput ? "compile the model again" : "");
  }
  return std::unique_ptr<NativeModel>(std::make_unique<LoadedModel>(
      std::move(linked), std::move(weights), *std::move(library), huge_pages, opencl));
}

}  // namespace llmc::exec
