/* Board `virt` of qemu: a 16550 as serial port, an ACPI sleep register to power off. */
#include "board.h"

#include <stdint.h>

/* Window 1 of start.S: uncached. */
#define DEVICE(address) ((volatile uint8_t*)(0x8000000000000000u + (address)))
#define UART DEVICE(0x1fe001e0)
#define SLEEP_CONTROL DEVICE(0x100e001c)
enum { kData = 0, kLineStatus = 5 };
enum { kTransmitEmpty = 1 << 5 };
enum { kSleepNow = 1 << 5, kOff = 5 << 2 };

void board_init(void) {}

void board_put(char c) {
  while ((UART[kLineStatus] & kTransmitEmpty) == 0) {
  }
  UART[kData] = (uint8_t)c;
}

_Noreturn void board_power_off(void) {
  for (;;) *SLEEP_CONTROL = kSleepNow | kOff;
}
