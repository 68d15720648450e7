/*
 * arm64 from reset (exception level 1, or 2, which is left) to firmware_main: floating point on,
 * memory translation and caches on, .data and .bss and the stack prepared.
 *
 * Translation is needed although every address stays what it is: without it all memory counts as
 * device memory, which is not cached and faults on unaligned vector loads.
 */
#define SCTLR_OFF 0x30d00800 /* the reserved ones */

  .section .start, "ax"
  .globl _start
_start:
  mrs x0, CurrentEL
  lsr x0, x0, #2
  msr tpidr_el1, x0             /* for board.c: the level that was begun at */
  cmp x0, #2
  b.lo level_is_1
  b.hi level_3_is_not_handled

  mov x0, #(1 << 31)            /* HCR_EL2.RW: level 1 is 64-bit; nothing goes to level 2 */
  msr hcr_el2, x0
  mov x0, #0x33ff               /* CPTR_EL2: reserved ones; no traps of floating point and SIMD */
  msr cptr_el2, x0
  ldr x0, =SCTLR_OFF            /* nothing says what it is after reset */
  msr sctlr_el1, x0
  mov x0, #0x3c5                /* level 1 with a stack pointer of its own, interrupts masked */
  msr spsr_el2, x0
  adr x0, level_is_1
  msr elr_el2, x0
  eret

level_3_is_not_handled:         /* secure firmware begins here: it is to start this at level 2 or 1 */
  wfe
  b level_3_is_not_handled

level_is_1:
  adr x0, vectors
  msr vbar_el1, x0

  mov x0, #(3 << 20)            /* CPACR_EL1.FPEN: no traps of floating point and SIMD */
  msr cpacr_el1, x0
  isb
  msr fpcr, xzr                 /* to nearest even, subnormals kept */

  adr x0, level_1
  msr ttbr0_el1, x0
  ldr x0, =0xff00               /* memory type 0: device; 1: normal, write-back, allocating */
  msr mair_el1, x0
  /* 32-bit addresses, 4 KB granule, walks cached and inner shareable, no second table */
  ldr x0, =(32 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23)
  msr tcr_el1, x0
  tlbi vmalle1
  dsb nsh
  isb
  ldr x0, =(SCTLR_OFF | 1 << 12 | 1 << 2 | 1) /* instruction cache, data cache, translation */
  msr sctlr_el1, x0
  isb

  adrp x0, data_start
  add x0, x0, :lo12:data_start
  adrp x1, data_end
  add x1, x1, :lo12:data_end
  adrp x2, data_image
  add x2, x2, :lo12:data_image
copy_data:                      /* sections.ld aligns these places to 64 bytes */
  cmp x0, x1
  b.hs clear_bss
  ldp x3, x4, [x2], #16
  stp x3, x4, [x0], #16
  b copy_data

clear_bss:
  adrp x0, bss_start
  add x0, x0, :lo12:bss_start
  adrp x1, bss_end
  add x1, x1, :lo12:bss_end
1:
  cmp x0, x1
  b.hs 2f
  stp xzr, xzr, [x0], #16
  b 1b
2:
  adrp x0, stack_start          /* filled with ones, so that what was used can be told */
  add x0, x0, :lo12:stack_start
  adrp x1, stack_end
  add x1, x1, :lo12:stack_end
  mov x2, #-1
3:
  stp x2, x2, [x0], #16
  cmp x0, x1
  b.lo 3b
  mov sp, x1
  mov x29, xzr
  mov x30, xzr
  b firmware_main
  .ltorg

  .balign 2048
vectors:
  .rept 16
  adrp x0, stack_end            /* whatever the stack was, it is not needed any more */
  add x0, x0, :lo12:stack_end
  mov sp, x0
  adr x0, exception
  mrs x1, esr_el1
  mrs x2, far_el1
  mrs x3, elr_el1
  b firmware_fault
  .balign 128
  .endr
exception:
  .asciz "exception"

/*
 * Translation tables, made by the assembler: 1 GB an entry, and 2 MB an entry for the first GB.
 * Every address is its own translation. Flash: normal memory, read-only, executable. Devices:
 * not executable. RAM: normal memory, not executable. Nothing below RAM, which begins with the
 * stack: when it overflows, that is a fault.
 */
#define BLOCK 1
#define TABLE 3
#define NORMAL (1 << 2)
#define READ_ONLY (2 << 6)
#define INNER_SHAREABLE (3 << 8)
#define ACCESSED (1 << 10)
#define NOT_EXECUTABLE (3 << 53)

  .balign 4096
level_2:
  .set address, 0
  .rept 64                      /* the first 128 MB: two banks of flash */
  .quad address + (BLOCK | NORMAL | READ_ONLY | INNER_SHAREABLE | ACCESSED)
  .set address, address + 0x200000
  .endr
  .rept 447
  .quad address + (BLOCK | ACCESSED | NOT_EXECUTABLE)
  .set address, address + 0x200000
  .endr
  .quad 0
level_1:
  .quad level_2 + TABLE
  .quad 0x40000000 + (BLOCK | NORMAL | INNER_SHAREABLE | ACCESSED | NOT_EXECUTABLE)
  .quad 0, 0
