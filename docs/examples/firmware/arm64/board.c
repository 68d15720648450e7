/* Board `virt` of qemu: a PL011 as serial port, PSCI to power off. */
#include "board.h"

#include <stdint.h>

#define UART ((volatile uint32_t*)0x09000000)
enum { kData = 0x00 / 4, kFlags = 0x18 / 4, kControl = 0x30 / 4 };
enum { kTransmitFull = 1 << 5, kEnable = 1 << 0 | 1 << 8 };

void board_init(void) {
  UART[kControl] = kEnable; /* qemu's UART has no baud rate */
}

void board_put(char c) {
  while ((UART[kFlags] & kTransmitFull) != 0) {
  }
  UART[kData] = (unsigned char)c;
}

_Noreturn void board_power_off(void) {
  register uint64_t call __asm__("x0") = 0x84000008; /* PSCI SYSTEM_OFF */
  uint64_t level;
  __asm__("mrs %0, tpidr_el1" : "=r"(level)); /* from start.S */
  for (;;) {
    /* PSCI is implemented by the exception level above: above level 1, or level 2 if there is one.
     */
    if (level == 1)
      __asm__ volatile("hvc #0" : "+r"(call) : : "memory");
    else
      __asm__ volatile("smc #0" : "+r"(call) : : "memory");
  }
}
