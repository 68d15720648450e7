#include "tools/llmc/command_line.h"

int main(int argc, char** argv) {
  return llmc::cli::run_program(argc, argv);
}
