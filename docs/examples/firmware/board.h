/*
 * What the program needs of a board. board.c of each architecture has it for qemu's machine `virt`.
 */
#ifndef BOARD_H
#define BOARD_H

void board_init(void);
void board_put(char c);
_Noreturn void board_power_off(void);

#endif
