#include "compiler/support/signal_cleanup.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <tuple>
#include <utility>

#include "compiler/support/remove_tree.h"
#include "compiler/support/subprocess.h"

namespace llmc {
namespace {

/// State of a slot that the signal handler reads. It changes from free to filling and active. The
/// owner makes an active slot free again; the signal handler makes it removing.
enum SlotState { kFree, kFilling, kActive, kRemoving };
struct Slot {
  std::atomic<int> state{kFree};
  std::size_t made_parents = 0;
  char path[4096] = {};
};
std::array<Slot, 16> slots;

std::atomic<bool> ending{false};  // the handler has begun
std::atomic<int> delaying{0};     // number of DelayedSignals

/// Maximum time in milliseconds for each wait of the handler: for other threads, or for files that
/// a dying process still creates.
constexpr int kMaxWaitMs = 2000;

/// Calls `done` until it returns true, for at most kMaxWaitMs.
template <typename Done>
void wait_for(Done done) {
  for (int i = 0; !done() && i < kMaxWaitMs; ++i) {
    const timespec millisecond{0, 1'000'000};
    ::nanosleep(&millisecond, nullptr);
  }
}

constexpr int kCaught[] = {SIGINT, SIGTERM, SIGHUP};

sigset_t caught_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kCaught) sigaddset(&set, number);
  return set;
}

int take_slot(const std::filesystem::path& path, std::size_t made_parents) {
  if (path.native().size() >= sizeof(Slot::path)) return -1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = kFree;
    if (!slots[i].state.compare_exchange_strong(expected, kFilling)) continue;
    slots[i].made_parents = made_parents;
    std::memcpy(slots[i].path, path.c_str(), path.native().size() + 1);
    slots[i].state.store(kActive);
    return static_cast<int>(i);
  }
  return -1;
}

bool release_slot(int slot) {
  if (slot < 0) return true;
  int expected = kActive;
  return slots[static_cast<std::size_t>(slot)].state.compare_exchange_strong(expected, kFree);
}

[[noreturn]] void wait_for_the_end() {
  for (;;) ::pause();
}

/// Removes the parents that were created for the slot's folder if they are empty, the deepest
/// first. Shortens the stored path.
void remove_made_parents(Slot& slot) {
  for (std::size_t i = 0; i < slot.made_parents; ++i) {
    char* const name = std::strrchr(slot.path, '/');
    if (name == nullptr || name == slot.path) return;
    *name = 0;
    if (::rmdir(slot.path) != 0) return;
  }
}

void on_signal(int number) {
  if (ending.exchange(true)) wait_for_the_end();  // another thread removes the folders
  wait_for([] { return delaying.load() == 0; });
  kill_running_commands();  // spawn() starts no others
  std::array<bool, std::tuple_size_v<decltype(slots)>> removed{};
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = kActive;
    removed[i] = slots[i].state.compare_exchange_strong(expected, kRemoving);
    if (!removed[i]) continue;
    // Other threads and dying commands may still create files.
    wait_for([&] { return remove_tree(slots[i].path); });
  }
  // Folders may share a parent, which is empty only after all of them are removed. The first slot
  // among them created the parent, so go from the last slot to the first.
  for (std::size_t i = slots.size(); i-- > 0;)
    if (removed[i]) remove_made_parents(slots[i]);
  for (const int caught : kCaught) ::signal(caught, SIG_DFL);  // the next signal ends the process
  ::raise(number);
}

}  // namespace

DelayedSignals::DelayedSignals() {
  const sigset_t caught = caught_signals();
  pthread_sigmask(SIG_BLOCK, &caught, &before_);
  delaying.fetch_add(1);
  if (!ending.load()) return;
  delaying.fetch_sub(1);
  wait_for_the_end();
}

DelayedSignals::~DelayedSignals() {
  delaying.fetch_sub(1);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

SignalCleanup::SignalCleanup(const std::filesystem::path& folder, std::size_t made_parents)
    : slot_(take_slot(folder, made_parents)) {}

SignalCleanup::SignalCleanup(SignalCleanup&& other) noexcept
    : slot_(std::exchange(other.slot_, -1)) {}

SignalCleanup::~SignalCleanup() {
  // The handler is removing the folder: do not return, because the process could then end too
  // early.
  if (!release_slot(slot_)) wait_for_the_end();
}

void SignalCleanup::forget() {
  if (!release_slot(slot_)) wait_for_the_end();
  slot_ = -1;
}

void end_by_signal(int number) {
  on_signal(number);
  ::_exit(128 + number);  // reached only if the signal was blocked
}

void install_signal_cleanup() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_mask = caught_signals();
  for (const int number : kCaught) {
    struct sigaction old{};
    // A signal that the parent process chose to ignore (nohup) stays ignored.
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN)
      ::sigaction(number, &action, nullptr);
  }
}

}  // namespace llmc
