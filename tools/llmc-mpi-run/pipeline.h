#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/exec/session.h"

namespace llmc::mpi {

/// The stages of a model on the ranks of MPI_COMM_WORLD, stage r on rank r. Every method is called
/// on all ranks, with the same arguments. A rank passes the rows of a chunk on while it computes
/// the next chunk, so that the stages of a long prompt work at the same time.
class Pipeline {
 public:
  /// `chunk`: tokens of a forward pass; 0: the model's maximum.
  Pipeline(exec::Session& session, const exec::ModelFacts& model, std::uint32_t chunk, int rank,
           int ranks);

  int rank() const { return rank_; }
  bool is_last() const { return rank_ + 1 == ranks_; }

  /// Fails with kUsage on all ranks if the ranks do not have the stages of one model in order.
  Status check_stages() const;
  /// Waits until all rows have been sent.
  ~Pipeline() { finish_sends(); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Drops all tokens.
  Status reset();
  /// Appends tokens. The last rank has the logits after them.
  Status append(std::span<const std::int32_t> tokens);
  /// Chooses a token on the last rank and returns it, without appending it.
  Result<std::int32_t> sample();
  /// Returns on all ranks what `decision` is on the last one.
  bool decide(bool decision) const;

 private:
  Status run(std::span<const std::int32_t> tokens, std::size_t more);
  void finish_sends();

  exec::Session& session_;
  const exec::ModelFacts model_;
  const std::uint32_t chunk_;
  const int rank_, ranks_;
  std::vector<float> received_;
  std::vector<float> sent_[2];  // of this chunk and the one before, which may still be on its way
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::size_t chunks_ = 0;
};

}  // namespace llmc::mpi
