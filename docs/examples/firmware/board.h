/*
 * The functions that the program needs from a board. Each architecture's board.c implements them
 * for qemu's machine `virt`.
 */
#ifndef BOARD_H
#define BOARD_H

void board_init(void);
void board_put(char c);
_Noreturn void board_power_off(void);

#endif
