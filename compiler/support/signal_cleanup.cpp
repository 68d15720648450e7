#include "compiler/support/signal_cleanup.h"

#include <signal.h>
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

/// State of a slot that the signal handler reads. It changes from free to filling, active and free
/// again. suspend() makes an active slot suspended, so that the handler, possibly on another
/// thread, never removes a folder while it is being renamed.
enum SlotState { kFree, kFilling, kActive, kSuspended, kRemoving };
struct Slot {
  std::atomic<int> state{kFree};
  std::size_t made_parents = 0;
  char path[4096] = {};
};
std::array<Slot, 16> slots;

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

bool move_slot(int slot, int from, int to) {
  if (slot < 0) return true;
  return slots[static_cast<std::size_t>(slot)].state.compare_exchange_strong(from, to);
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
  kill_running_commands();
  std::array<bool, std::tuple_size_v<decltype(slots)>> removed{};
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = kActive;
    removed[i] = slots[i].state.compare_exchange_strong(expected, kRemoving);
    if (removed[i]) remove_tree(slots[i].path);
  }
  // Folders may share a parent, which is empty only after all of them are removed. The slot that
  // created it is the first of them, so go from the last slot to the first.
  for (std::size_t i = slots.size(); i-- > 0;)
    if (removed[i]) remove_made_parents(slots[i]);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

SignalCleanup::SignalCleanup(const std::filesystem::path& folder, std::size_t made_parents)
    : slot_(take_slot(folder, made_parents)) {}

SignalCleanup::SignalCleanup(SignalCleanup&& other) noexcept
    : slot_(std::exchange(other.slot_, -1)) {}

SignalCleanup::~SignalCleanup() {
  // The handler is removing the folder: do not return, because the process could then end too
  // early.
  if (!move_slot(slot_, kActive, kFree))
    for (;;) ::pause();
}

bool SignalCleanup::suspend() {
  return move_slot(slot_, kActive, kSuspended);
}

void SignalCleanup::resume() {
  move_slot(slot_, kSuspended, kActive);
}

void SignalCleanup::forget() {
  move_slot(slot_, kSuspended, kFree);
  slot_ = -1;
}

void end_by_signal(int number) {
  on_signal(number);
  ::_exit(128 + number);  // reached only if the signal was blocked
}

void install_signal_cleanup() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, number);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    // A signal that the parent process chose to ignore (nohup) stays ignored.
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN)
      ::sigaction(number, &action, nullptr);
  }
}

}  // namespace llmc
