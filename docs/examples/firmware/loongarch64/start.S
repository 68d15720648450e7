/*
 * LoongArch startup, from reset (privilege level 0, addresses untranslated) to firmware_main: sets
 * up memory windows and caches, enables floating point and vectors, and prepares .data, .bss and
 * the stack.
 *
 * Two windows replace page tables: addresses that begin with 0 are mapped to themselves, cached;
 * those that begin with 8 are the same memory uncached, for devices.
 */
  .section .start, "ax"
  .globl _start
_start:
  li.d $t0, 0x0000000000000011  /* window 0: for level 0, cached */
  csrwr $t0, 0x180
  li.d $t0, 0x8000000000000001  /* window 1: for level 0, uncached */
  csrwr $t0, 0x181
  li.w $t0, 0xb0                /* CRMD: windows instead of direct addresses, no interrupts */
  csrwr $t0, 0x0

  la.pcrel $t0, exception
  csrwr $t0, 0xc                /* EENTRY */
  la.pcrel $t0, outside_windows
  csrwr $t0, 0x88               /* TLBRENTRY */
  la.pcrel $t0, machine_error
  csrwr $t0, 0x93               /* MERRENTRY */

  li.w $t0, 7                   /* EUEN: floating point, 128-bit and 256-bit vectors */
  csrwr $t0, 0x2
  movgr2fcsr $fcsr0, $zero      /* to nearest even, no traps */

  la.pcrel $t0, data_start
  la.pcrel $t1, data_end
  la.pcrel $t2, data_image
1:                              /* sections.ld aligns these places to 64 bytes */
  bgeu $t0, $t1, 2f
  ld.d $t3, $t2, 0
  st.d $t3, $t0, 0
  addi.d $t0, $t0, 8
  addi.d $t2, $t2, 8
  b 1b
2:
  la.pcrel $t0, bss_start
  la.pcrel $t1, bss_end
3:
  bgeu $t0, $t1, 4f
  st.d $zero, $t0, 0
  addi.d $t0, $t0, 8
  b 3b
4:
  la.pcrel $t0, stack_start     /* filled with ones, so that what was used can be told */
  la.pcrel $sp, stack_end
  li.d $t1, -1
5:
  st.d $t1, $t0, 0
  addi.d $t0, $t0, 8
  bltu $t0, $sp, 5b
  move $fp, $zero
  move $ra, $zero
  b firmware_main

/*
 * Three exception entries, each with its own registers for cause, address and program counter. The
 * last two switch to direct addresses; restore the windows to access the devices. The old stack is
 * no longer needed.
 */
  .macro fault_entry name, cause, address, where
  .balign 4096                  /* the entries' registers hold no lower bits */
\name:
  li.w $t0, 0xb0
  csrwr $t0, 0x0
  la.pcrel $sp, stack_end
  la.pcrel $a0, 1f
  csrrd $a1, \cause
  csrrd $a2, \address
  csrrd $a3, \where
  bstrins.d $a3, $zero, 1, 0    /* TLBRERA has flags there */
  b firmware_fault
1:
  .asciz "\name"
  .endm

  fault_entry exception, 0x5, 0x7, 0x6             /* ESTAT, BADV, ERA */
  fault_entry outside_windows, 0x5, 0x89, 0x8a     /* TLBRBADV, TLBRERA; it has no other cause */
  fault_entry machine_error, 0x90, 0x92, 0x94      /* MERRCTL, MERRINFO2, MERRERA */
