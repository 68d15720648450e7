#pragma once

#include <mpi.h>

#include <deque>
#include <vector>

#include "compiler/exec/ranks.h"

namespace llmc::mpi {

/// The ranks of MPI_COMM_WORLD.
class MpiRanks final : public exec::Ranks {
 public:
  MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  std::uint32_t rank() const override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t count() const override { return static_cast<std::uint32_t>(count_); }
  void send(std::uint32_t to, std::span<const std::byte> bytes) override;
  std::span<const std::byte> receive(std::uint32_t from) override;
  void wait_for_all() override { MPI_Barrier(MPI_COMM_WORLD); }
  /// Waits until MPI no longer needs the bytes of sent messages.
  void wait_for_sent() { drop_sent(0); }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    MPI_Request request;
  };
  /// Removes sent messages. Waits until those that remain have at most `most_bytes`.
  void drop_sent(std::size_t most_bytes);

  int rank_ = 0, count_ = 0;
  std::deque<Message> sent_;    // incomplete sends, oldest first
  std::size_t sent_bytes_ = 0;  // sum of their sizes
  std::vector<std::byte> received_;
};

/// Divides the cores of this machine among its ranks, if all of them may use the same ones and
/// there is at least one core for each. Sets the affinity of the calling thread.
void divide_cores();

}  // namespace llmc::mpi
