#include "tools/llmc-mpi-run/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc::mpi {
namespace {

constexpr int kRowsTag = 1;

}  // namespace

Pipeline::Pipeline(exec::Session& session, const exec::ModelFacts& model, std::uint32_t chunk,
                   int rank, int ranks)
    : session_(session),
      model_(model),
      chunk_(chunk == 0 ? model.chunk : std::min(chunk, model.chunk)),
      rank_(rank),
      ranks_(ranks) {
  const std::size_t rows = std::size_t{chunk_} * model.hidden;
  if (rank > 0) received_.resize(rows);
  if (!is_last())
    for (std::vector<float>& buffer : sent_) buffer.resize(rows);
}

Status Pipeline::check_stages() const {
  // Equal on all ranks, except the number of the stage.
  const std::int64_t mine[] = {
      model_.shards,   model_.hidden,
      model_.vocab,    model_.ctx,
      model_.kv_heads, model_.head_dim,
      chunk_,          static_cast<std::int64_t>(model_.program_hash >> 1)};
  constexpr int kCount = std::size(mine);
  std::int64_t least[kCount], most[kCount];
  MPI_Allreduce(mine, least, kCount, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(mine, most, kCount, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  int in_place = model_.shard == static_cast<std::uint32_t>(rank_) ? 1 : 0, all_in_place = 0;
  MPI_Allreduce(&in_place, &all_in_place, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (model_.shards != static_cast<std::uint32_t>(ranks_))
    return usage_error(fmt::format("{} ranks for a model of {} stages", ranks_, model_.shards),
                       fmt::format("mpirun -n {}", model_.shards));
  if (all_in_place == 0 || !std::equal(least, least + kCount, most))
    return usage_error("the stages differ in their model, its options or the chunk",
                       "compile all of them in one call of llmc compile --stages");
  return ok_status();
}

Status Pipeline::reset() {
  finish_sends();
  return session_.call(&exec::Api::reset);
}

Status Pipeline::append(std::span<const std::int32_t> tokens) {
  for (std::size_t first = 0; first < tokens.size(); first += chunk_) {
    const std::size_t count = std::min<std::size_t>(tokens.size() - first, chunk_);
    LLMC_RETURN_IF_ERROR(run(tokens.subspan(first, count), tokens.size() - first - count));
  }
  return ok_status();
}

Result<std::int32_t> Pipeline::sample() {
  std::int32_t token = 0;
  if (is_last()) {
    LLMC_TRY(token, session_.sample());
  }
  MPI_Bcast(&token, 1, MPI_INT32_T, ranks_ - 1, MPI_COMM_WORLD);
  return token;
}

bool Pipeline::decide(bool decision) const {
  int value = decision ? 1 : 0;
  MPI_Bcast(&value, 1, MPI_INT, ranks_ - 1, MPI_COMM_WORLD);
  return value != 0;
}

Status Pipeline::run(std::span<const std::int32_t> tokens, std::size_t more) {
  const auto elements = static_cast<int>(tokens.size() * model_.hidden);
  if (rank_ > 0)
    MPI_Recv(received_.data(), elements, MPI_FLOAT, rank_ - 1, kRowsTag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  const std::size_t slot = chunks_++ % 2;
  MPI_Wait(&requests_[slot], MPI_STATUS_IGNORE);
  float* const hidden = is_last() ? nullptr : sent_[slot].data();
  LLMC_RETURN_IF_ERROR(session_.call(&exec::Api::forward_hidden, tokens.data(),
                                     rank_ > 0 ? received_.data() : nullptr, tokens.size(), more,
                                     hidden));
  if (!is_last())
    MPI_Isend(hidden, elements, MPI_FLOAT, rank_ + 1, kRowsTag, MPI_COMM_WORLD, &requests_[slot]);
  return ok_status();
}

void Pipeline::finish_sends() {
  MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE);
}

}  // namespace llmc::mpi
