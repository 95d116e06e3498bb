/*
 * cleave: the command line. One file a command; see options.h for how they are
 * described.
 */
#include "commands.h"
#include "interrupt.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const tool_command *const commands[] = {
    &tool_run,      &tool_bench,   &tool_perplexity, &tool_verify,
    &tool_tokenize, &tool_devices, &tool_plan,       &tool_profile,
    &tool_quantize, &tool_convert, &tool_template,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static int print_version(void)
{
    printf("cleave %s (plugin ABI %u)\n", clv_version(), CLV_ABI_VERSION);
    return TOOL_OK;
}

static void print_overview(FILE *out)
{
    fprintf(out, "usage: cleave COMMAND [options]\n\n"
                 "Runs language models on all the processors of one machine."
                 "\n\ncommands\n");
    for (uint32_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "  %-12s %s\n", "help", "Shows this, or a command's help.");
    fprintf(out, "  %-12s %s\n", "version", "Shows the version.");
    fprintf(out, "\nexamples\n"
                 "  cleave run -p \"def fibonacci(n):\" -n 64 --temp 0\n"
                 "  cleave run -m model.gguf -f prompt.txt\n"
                 "  cleave bench -m model.gguf -p 512 -n 128\n"
                 "  cleave help run\n\n"
                 "Settings come from cleave.ini, from CLEAVE_SECTION_KEY in "
                 "the environment, and\nfrom --set section.key=value.\n");
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS + 2] = {"help", "version"};
    for (uint32_t i = 0; i < N_COMMANDS; i++)
        names[i + 2] = commands[i]->name;
    const char *near = tool_nearest(name, names, N_COMMANDS + 2);
    if (near)
        return tool_usage("unknown command '%s'; did you mean '%s'?", name,
                          near);
    return tool_usage("unknown command '%s'; see 'cleave help'", name);
}

static int run_command(const char *name, int argc, char **argv)
{
    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i]->name))
            continue;
        program_invocation_short_name = (char *)commands[i]->title;
        return commands[i]->run(argc, argv);
    }
    return unknown_command(name);
}

static int show_help(int argc, char **argv)
{
    char option[] = "--help";
    char *args[] = {argv[0], option, NULL};
    if (argc < 2 || !strcmp(argv[1], "help")) {
        print_overview(stdout);
        return TOOL_OK;
    }
    if (!strcmp(argv[1], "version"))
        return print_version();
    return run_command(argv[1], 2, args);
}

static int dispatch(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_overview(stderr);
        return TOOL_USAGE;
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return show_help(argc - 1, argv + 1);
    if (!strcmp(name, "version") || !strcmp(name, "--version"))
        return print_version();
    if (name[0] == '-')
        return tool_usage("a command comes first, not '%s'; see 'cleave help'",
                          name);
    return run_command(name, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    char title[] = "cleave";
    program_invocation_short_name = title;
    tool_interrupt_install();
    int code = dispatch(argc, argv);
    if (!tool_close_stdout() && code == TOOL_OK)
        code = TOOL_FAILED;
    tool_interrupt_leave();
    if (!clv_exit_safe()) {
        fflush(NULL);
        _exit(code);
    }
    return code;
}
