#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/exec/session.h"

/// Sessions of a model that is cut into shards: one process for each, all of which run the same
/// program.
namespace llmc::exec {

/// Messages between the processes that run the shards of a model: rank r has shard r. Messages from
/// one rank to another arrive in the order in which they were sent.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t count() const = 0;
  /// Sends a copy of `bytes` and may return before they arrive.
  virtual void send(std::uint32_t to, std::span<const std::byte> bytes) = 0;
  /// Returns the next message, aligned for floats, which is valid until the next call.
  virtual std::span<const std::byte> receive(std::uint32_t from) = 0;

  /// Returns when all ranks have called it.
  virtual void wait_for_all() = 0;

  bool is_last() const { return rank() + 1 == count(); }
};

/// Checks that the ranks have the shards of one compilation of a model in order. Fails with kUsage:
/// on all of them, except for another number of shards. `source_hash`: BundleFacts::source_hash.
/// Called on all ranks.
Status check_shards(Ranks& ranks, const ModelFacts& model, std::uint64_t source_hash);

/// Returns the text that the first rank gives: only it can read the standard input.
std::string text_of_first(Ranks& ranks, std::string text);

/// Returns the session of the whole model, given this rank's session of its shard. Every rank must
/// make the same calls: they then return the same values, except for logits and probabilities,
/// which are those of the model on the last rank and zeros elsewhere. A rank returns from a call
/// when its own part is done, so that ranks work on successive chunks, or on several sequences, at
/// the same time. `ranks` must outlive the session.
SessionHandle over_ranks(SessionHandle own, Ranks& ranks, const ModelFacts& model,
                         std::uint32_t chunk);

}  // namespace llmc::exec
