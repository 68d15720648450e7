#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/exec/session.h"

/// Sessions of a model that is cut into shards. Each shard runs in a separate process (a rank), and
/// all processes run the same program.
namespace llmc::exec {

/// Sends messages between the processes that run the shards of a model; rank r has shard r.
/// Messages from one rank to another arrive in the order in which they were sent.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t count() const = 0;
  /// Sends a copy of `bytes` and may return before they arrive.
  virtual void send(std::uint32_t to, std::span<const std::byte> bytes) = 0;
  /// Waits for the next message and returns it, aligned for floats. Valid until the next call.
  virtual std::span<const std::byte> receive(std::uint32_t from) = 0;

  /// Returns when all ranks have called it.
  virtual void wait_for_all() = 0;

  bool is_last() const { return rank() + 1 == count(); }
};

/// Checks that the ranks have the shards of one compilation of a model in order. Call it on all
/// ranks. Fails with kUsage on all ranks. However, a rank whose model has another number of shards
/// than there are ranks fails at once, without informing the others. `source_hash`:
/// BundleFacts::source_hash.
Status check_shards(Ranks& ranks, const ModelFacts& model, std::uint64_t source_hash);

/// Returns the `text` of rank 0 on all ranks, because only rank 0 can read standard input. Call it
/// on all ranks.
std::string broadcast_text(Ranks& ranks, std::string text);

/// Returns the session of the whole model, given this rank's session of its shard. All ranks must
/// make the same calls, which then return the same values. However, logits and probabilities are
/// available only on the last rank; the other ranks return zeros. A rank returns from a call when
/// its own part is done, so that ranks work on successive chunks, or on several sequences, at the
/// same time. `ranks` must outlive the session.
SessionHandle make_distributed_session(SessionHandle own, Ranks& ranks, const ModelFacts& model,
                                       std::uint32_t chunk);

}  // namespace llmc::exec
