#include "tools/llmc-mpi-run/mpi_ranks.h"

#include <sched.h>

#include <algorithm>
#include <limits>

#include "compiler/support/check.h"

namespace llmc::mpi {

MpiRanks::MpiRanks() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &count_);
}

void MpiRanks::drop_sent(std::size_t most_bytes) {
  while (!sent_.empty()) {
    int done = 0;
    if (sent_bytes_ > most_bytes) {
      MPI_Wait(&sent_.front().request, MPI_STATUS_IGNORE);
    } else {
      MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE);
      if (done == 0) return;
    }
    sent_bytes_ -= sent_.front().bytes.size();
    sent_.pop_front();
  }
}

void MpiRanks::send(std::uint32_t to, std::span<const std::byte> bytes) {
  LLMC_CHECK(bytes.size() <= std::numeric_limits<int>::max());  // MPI counts bytes as int
  // The messages of this chunk and of the previous one may be incomplete at the same time.
  drop_sent(bytes.size());
  Message& message = sent_.emplace_back(
      Message{std::vector<std::byte>(bytes.begin(), bytes.end()), MPI_REQUEST_NULL});
  sent_bytes_ += bytes.size();
  MPI_Isend(message.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(to), 0,
            MPI_COMM_WORLD, &message.request);
}

std::span<const std::byte> MpiRanks::receive(std::uint32_t from) {
  MPI_Message message;
  MPI_Status status;
  int bytes = 0;
  MPI_Mprobe(static_cast<int>(from), 0, MPI_COMM_WORLD, &message, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  LLMC_CHECK(bytes >= 0);
  received_.resize(std::max(received_.size(), static_cast<std::size_t>(bytes)));
  MPI_Mrecv(received_.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  return std::span(received_).first(static_cast<std::size_t>(bytes));
}

void divide_cores() {
  MPI_Comm machine;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  int rank = 0, count = 1;
  MPI_Comm_rank(machine, &rank);
  MPI_Comm_size(machine, &count);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const bool known = sched_getaffinity(0, sizeof mine, &mine) == 0;
  std::vector<cpu_set_t> all(static_cast<std::size_t>(count));
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, machine);
  MPI_Comm_free(&machine);
  const bool shared = std::ranges::all_of(
      all, [&mine](const cpu_set_t& other) { return CPU_EQUAL(&mine, &other) != 0; });
  const int cores = CPU_COUNT(&mine);
  if (!known || !shared || count == 1 || cores < count) return;
  cpu_set_t part;
  CPU_ZERO(&part);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mine) == 0) continue;
    if (seen >= cores * rank / count && seen < cores * (rank + 1) / count) CPU_SET(cpu, &part);
    ++seen;
  }
  sched_setaffinity(0, sizeof part, &part);
}

}  // namespace llmc::mpi
