/*
 * Runs a command if this machine has a level of the CPU plugin's kernels:
 * at_level LEVEL COMMAND ARGUMENTS. 77, which skips a test, if it has not.
 */
#include "../../plugins/cpu/level.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int level = 0;
    if (argc < 3)
        return 2;
    while (level < CPU_LEVEL_COUNT &&
           strcmp(cpu_level_name((cpu_level)level), argv[1]))
        level++;
    if (level == CPU_LEVEL_COUNT)
        return 2;
    if (level > (int)cpu_detect_level())
        return 77;
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
