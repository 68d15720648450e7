// Models that are cut into shards: the bits of the whole model. Ranks of MPI: ranks_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "compiler/driver/compile.h"
#include "compiler/evaluate/logits.h"
#include "compiler/exec/ranks.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::vector<std::int32_t>;

/// The shards of a model in this process.
class ShardsInTurn {
 public:
  ShardsInTurn(const driver::CompileOptions& options, std::uint32_t count, std::uint32_t threads) {
    for (std::uint32_t index = 0; index < count; ++index) {
      driver::CompileOptions of_shard = options;
      of_shard.shard = {index, count};
      models_.push_back(load(of_shard));
      if (models_.back() == nullptr) return;
      auto session = models_.back()->start(threads);
      if (!session.ok()) expect_ok(session.error());
      if (!session.ok()) return;
      sessions_.push_back(*std::move(session));
    }
  }
  bool ok() const { return !sessions_.empty() && sessions_.size() == models_.size(); }
  const exec::ModelFacts& facts(std::size_t shard) const { return models_[shard]->model(); }
  exec::Session& last() { return *sessions_.back(); }

  void append(std::span<const std::int32_t> tokens, std::size_t chunk) {
    for (std::size_t first = 0; first < tokens.size(); first += chunk) {
      const std::size_t n = std::min(chunk, tokens.size() - first);
      const std::size_t more = tokens.size() - first - n;
      std::vector<float> rows, next(n * facts(0).hidden);
      for (std::size_t i = 0; i < sessions_.size(); ++i) {
        const bool is_last = i + 1 == sessions_.size();
        const Status status = sessions_[i]->call(&exec::Api::forward_hidden, tokens.data() + first,
                                                 i == 0 ? nullptr : rows.data(), n, more,
                                                 is_last ? nullptr : next.data());
        if (!status.ok()) return expect_ok(status.error());
        rows = next;
      }
    }
  }

 private:
  std::vector<std::unique_ptr<exec::NativeModel>> models_;
  std::vector<std::unique_ptr<exec::Session>> sessions_;
};

/// Ranks that are threads of this process.
class ThreadRanks final : public exec::Ranks {
 public:
  struct Shared {
    explicit Shared(std::uint32_t count) : count(count), all(count), messages(count * count) {}
    const std::uint32_t count;
    std::barrier<> all;
    std::mutex mutex;
    std::condition_variable arrived;
    std::vector<std::deque<std::vector<std::byte>>> messages;  // [to][from]
  };
  ThreadRanks(Shared& shared, std::uint32_t rank) : shared_(shared), rank_(rank) {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t count() const override { return shared_.count; }
  void send(std::uint32_t to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.messages[to * count() + rank_].emplace_back(bytes.begin(), bytes.end());
    shared_.arrived.notify_all();
  }
  std::span<const std::byte> receive(std::uint32_t from) override {
    std::unique_lock lock(shared_.mutex);
    auto& queue = shared_.messages[rank_ * count() + from];
    shared_.arrived.wait(lock, [&] { return !queue.empty(); });
    received_ = std::move(queue.front());
    queue.pop_front();
    return received_;
  }
  void wait_for_all() override { shared_.all.arrive_and_wait(); }

 private:
  Shared& shared_;
  const std::uint32_t rank_;
  std::vector<std::byte> received_;
};

/// What a program with a model sees. Logits are those of the last rank.
struct Seen {
  std::vector<Ids> tokens;
  std::vector<std::string> hashes;
  std::vector<std::uint32_t> positions;
  std::vector<bool> failed;
};

/// Calls that a program makes, the same on each rank: prompts of several sequences, steps of one,
/// of all and of others, a rewind, a saved state, and what is refused.
Seen use(exec::Session& session, std::uint32_t vocabulary) {
  using exec::Api;
  Seen seen;
  const auto note = [&](const Status& status) { seen.failed.push_back(!status.ok()); };
  const auto logits = [&] {
    evaluate::LogitHash hash;
    if (const auto found = session.logits(); found.ok()) hash.add(*found);
    seen.hashes.push_back(hash.text());
    seen.positions.push_back(session.position());
  };
  llmc_sampling sampling{};
  llmc_sampling_defaults(&sampling);
  sampling.temperature = 1.5F;
  sampling.seed = 11;
  note(session.call(&Api::set_sampling, &sampling));
  std::vector<std::uint32_t> all{0};
  for (std::uint32_t i = 1; i < 5; ++i) {
    const auto added = session.get<std::uint32_t>(&Api::new_sequence);
    if (!added.ok()) return seen;
    all.push_back(*added);
  }
  for (const std::uint32_t sequence : all) {
    note(session.call(&Api::select, sequence));
    note(session.call(&Api::set_sampling, &sampling));
    note(session.prefill(made_up_prompt(20 + 9 * sequence, static_cast<int>(vocabulary))));
    logits();
  }
  const auto step = [&](std::span<const std::uint32_t> sequences) {
    Ids tokens(sequences.size());
    note(session.call(&Api::step_batch, sequences.data(), sequences.size(), tokens.data()));
    seen.tokens.push_back(tokens);
  };
  for (int i = 0; i < 3; ++i) step(all);
  logits();
  step(all);
  step(std::span(all).subspan(1, 2));
  step(all);
  note(session.call(&Api::rewind, 30));
  note(session.call(&Api::append, 7));
  logits();
  for (int i = 0; i < 2; ++i) seen.tokens.push_back({session.step().ok() ? 1 : 0});
  logits();
  const auto state = session.save_state();
  note(session.prefill(Ids{3, 4, 5}));
  if (state.ok()) note(session.load_state(*state));
  logits();
  const std::uint32_t pair[] = {all[1], all[3]};
  const std::int32_t given[] = {8, 9};
  note(session.call(&Api::append_batch, pair, 2, given));
  step(all);
  // Refused on all ranks, where nothing changes.
  note(session.prefill(Ids{1, static_cast<std::int32_t>(vocabulary)}));
  note(session.prefill(Ids(200, 1)));
  const std::uint32_t unknown[] = {77};
  note(session.call(&Api::append_batch, unknown, 1, given));
  session.wait_for_ranks();
  step(all);
  for (const std::uint32_t sequence : all) {
    note(session.call(&Api::select, sequence));
    logits();
  }
  return seen;
}

TEST(Shards, OnRanksAreASessionOfTheWholeModel) {
  const ModelFolder folder({.layers = 3, .heads = 2, .kv_heads = 1, .head_dim = 16, .hidden = 32});
  driver::CompileOptions options = options_for(folder.path(), "generic", ir::WeightFormat::kQ8);
  options.chunk = 8;
  options.sequences = options.batch = 5;
  const auto whole = load(options);
  ASSERT_NE(whole, nullptr);
  const auto session = whole->start(1);
  ASSERT_TRUE(session.ok());
  const Seen expected = use(**session, whole->model().vocab);
  EXPECT_EQ(std::ranges::count(expected.failed, true), 3);
  constexpr std::uint32_t kRanks = 3;
  std::vector<std::unique_ptr<exec::NativeModel>> models;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    driver::CompileOptions of_shard = options;
    of_shard.shard = {rank, kRanks};
    models.push_back(load(of_shard));
    ASSERT_NE(models.back(), nullptr);
  }
  ThreadRanks::Shared shared(kRanks);
  std::vector<Seen> seen(kRanks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(shared, rank);
      if (const Status joined = models[rank]->join(ranks); !joined.ok())
        return expect_ok(joined.error());
      const auto part = models[rank]->start(1);
      if (!part.ok()) return expect_ok(part.error());
      seen[rank] = use(**part, whole->model().vocab);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen[kRanks - 1].hashes, expected.hashes);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(seen[rank].tokens, expected.tokens) << rank;
    EXPECT_EQ(seen[rank].positions, expected.positions) << rank;
    EXPECT_EQ(seen[rank].failed, expected.failed) << rank;
  }
  for (const auto& queue : shared.messages) EXPECT_TRUE(queue.empty());

  // In another order.
  std::vector<std::thread> others;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    others.emplace_back([&, rank] {
      ThreadRanks ranks(shared, rank);
      EXPECT_FALSE(models[kRanks - 1 - rank]->join(ranks).ok());
    });
  for (std::thread& thread : others) thread.join();
}

TEST(Shards, HaveTheBitsOfTheWholeModel) {
  driver::CompileOptions options = options_for(tinyfable(), "avx2", passes::kQ4Mixed);
  options.ctx = 128;
  options.chunk = 32;
  const auto whole = load(options);
  ASSERT_NE(whole, nullptr);
  auto session = whole->start(1);
  ASSERT_TRUE(session.ok());
  const Ids prompt = made_up_prompt(50, 40);
  ASSERT_TRUE((*session)->prefill(prompt).ok());
  constexpr std::uint32_t kCount = 2;
  ShardsInTurn shards(options, kCount, 2);
  ASSERT_TRUE(shards.ok());
  std::uint64_t weights = 0, layers = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(shards.facts(i).shard, i);
    weights += shards.facts(i).weights_bytes;
    layers += shards.facts(i).layers;
  }
  EXPECT_EQ(layers, whole->model().layers);
  EXPECT_LT(weights, whole->model().weights_bytes + kCount * 1024);
  shards.append(prompt, 7);
  for (int step = 0; step < 8; ++step) {
    const auto expected = (*session)->logits(), found = shards.last().logits();
    ASSERT_TRUE(expected.ok() && found.ok());
    ASSERT_EQ(found->size(), expected->size());
    ASSERT_TRUE(std::ranges::equal(*found, *expected)) << "step " << step;
    const auto token = shards.last().sample(), same = (*session)->step();
    ASSERT_TRUE(token.ok() && same.ok());
    ASSERT_EQ(*token, *same);
    shards.append({&*token, 1}, 1);
  }
}

#ifdef LLMC_PROGRAM
TEST(StagesOption, PlanShowsEachAndTooManyAreRefused) {
  const ProgramRun planned = llmc({"plan", tinyfable().string(), "--stages", "2"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("shard       0 of 2: 2 layers"));
  EXPECT_THAT(planned.out, HasSubstr("shard       1 of 2: 2 layers"));
  const ProgramRun refused = llmc({"plan", tinyfable().string(), "--stages", "5"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--stages takes 2 to 4"));
  for (const char* const wrong : {"1", "x", "2,3", "-2"}) {
    const ProgramRun ran = llmc({"plan", tinyfable().string(), std::string("--stages=") + wrong});
    EXPECT_EQ(ran.code, 2) << wrong;
    EXPECT_THAT(ran.err, HasSubstr("--stages takes a number from 2 to 1024, or auto, not '"));
  }
}

TEST(StagesOption, NameTheShardThatIsOverTheBudget) {
  const ProgramRun ran = llmc({"plan", tinyfable().string(), "--stages", "2", "--max-ram", "600K"});
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("the arena of shard 0 of 2 needs "));
}

TEST(StagesOption, AutoTakesAsFewAsFit) {
  const auto plan = [](const char* max_ram) {
    return llmc({"plan", tinyfable().string(), "--stages", "auto", "--max-ram", max_ram});
  };
  EXPECT_THAT(plan("8M").out, Not(HasSubstr("shard  ")));  // one machine is enough
  EXPECT_THAT(plan("1600K").out, HasSubstr("shard       1 of 2"));
  EXPECT_THAT(plan("1500K").out, HasSubstr("shard       2 of 3"));
  const ProgramRun never = plan("100K");
  EXPECT_EQ(never.code, 5) << never.err;
  EXPECT_THAT(never.err, HasSubstr("no cut between layers fits 102400 bytes"));
  const ProgramRun unlimited = llmc({"plan", tinyfable().string(), "--stages", "auto"});
  EXPECT_EQ(unlimited.code, 2);
  EXPECT_THAT(unlimited.err, HasSubstr("--stages auto needs --max-ram"));
}

#endif

}  // namespace
}  // namespace llmc::tests
