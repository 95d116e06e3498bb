/*
 * Command lines described by tables: parsing, --help, and messages that name
 * the option, the value and what would have been right.
 *
 * A command keeps its arguments in a struct whose first member is a
 * tool_common. An option's offset says where in that struct its value goes;
 * what the struct holds before parsing is the default, which --help shows if it
 * is a value that could be given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOOL_OK = 0,
    TOOL_FAILED = 1,
    TOOL_USAGE = 2, /* interrupted: tool_interrupt_code() */
};

typedef enum tool_option_type {
    TOOL_FLAG = 1, /* bool; --no-NAME clears it */
    TOOL_INT,      /* int64_t in min..max */
    TOOL_FLOAT,    /* double in min..max */
    TOOL_STRING,   /* const char * */
    TOOL_CHOICE,   /* const char *, one of choices */
    TOOL_STRINGS,  /* tool_strings, one more at each use */
    TOOL_INTS,     /* tool_ints from "1,2,3", each in min..max */
    TOOL_GROUP,    /* no option: a heading of --help for those behind it */
} tool_option_type;

#define TOOL_LIST_MAX 64

typedef struct tool_strings {
    const char *items[TOOL_LIST_MAX];
    uint32_t n;
} tool_strings;

typedef struct tool_ints {
    int64_t items[TOOL_LIST_MAX];
    uint32_t n;
} tool_ints;

typedef struct tool_option {
    char letter;       /* 0: none */
    const char *names; /* "predict|n-predict", the first one is shown; "-dev"
                          is written with a single dash */
    const char *arg;   /* "FILE"; NULL for flags */
    const char *help;
    uint32_t type; /* tool_option_type */
    size_t offset;
    double min, max;
    const char *choices; /* "md|json|csv" */
} tool_option;

/* What tables are made of. at: the offset. */
#define TOOL_OPT(l, n, a, k, at, h)                                            \
    .letter = l, .names = n, .arg = a, .type = k, .offset = at, .help = h
#define TOOL_OPT_FLAG(l, n, at, h)                                             \
    {                                                                          \
        TOOL_OPT(l, n, NULL, TOOL_FLAG, at, h)                                 \
    }
#define TOOL_OPT_STRING(l, n, a, at, h)                                        \
    {                                                                          \
        TOOL_OPT(l, n, a, TOOL_STRING, at, h)                                  \
    }
#define TOOL_OPT_STRINGS(l, n, a, at, h)                                       \
    {                                                                          \
        TOOL_OPT(l, n, a, TOOL_STRINGS, at, h)                                 \
    }
#define TOOL_OPT_CHOICE(l, n, a, at, all, h)                                   \
    {                                                                          \
        TOOL_OPT(l, n, a, TOOL_CHOICE, at, h), .choices = all                  \
    }
#define TOOL_OPT_INT(l, n, at, from, to, h)                                    \
    {                                                                          \
        TOOL_OPT(l, n, "N", TOOL_INT, at, h), .min = from, .max = to           \
    }
#define TOOL_OPT_INTS(l, n, at, from, to, h)                                   \
    {                                                                          \
        TOOL_OPT(l, n, "LIST", TOOL_INTS, at, h), .min = from, .max = to       \
    }
#define TOOL_OPT_FLOAT(l, n, at, from, to, h)                                  \
    {                                                                          \
        TOOL_OPT(l, n, "X", TOOL_FLOAT, at, h), .min = from, .max = to         \
    }

#define TOOL_OPT_GROUP(heading)                                                \
    {                                                                          \
        .names = "", .help = heading, .type = TOOL_GROUP                       \
    }

/* An option of another program that scripts may give. It is skipped with a note
 * if what it asks for is so in any case; else the note is the error. */
typedef struct tool_foreign {
    const char *names; /* as in tool_option */
    uint32_t n_values;
    const char *choices; /* one more value, if it is one of these */
    bool is_so;
    const char *note;
} tool_foreign;

/* Options that every command on devices has. */
typedef struct tool_common {
    bool help, verbose, quiet;
    tool_strings conf, set;
    const char *devices, *log_level, *trace; /* NULL: not given */
    int64_t threads;                         /* 0: not given */
} tool_common;

typedef struct tool_command {
    const char *name;            /* "run" */
    const char *title;           /* "cleave run", in front of messages */
    const char *operands;        /* "DIR...", "" */
    const char *summary;         /* one line */
    const char *details;         /* paragraphs below the summary, or NULL */
    const char *examples;        /* lines, each indented by two */
    const tool_option *options;  /* ends with one without names; NULL: none */
    const tool_foreign *foreign; /* ends with one without names; NULL: none */
    bool no_devices; /* takes only --help and --quiet of tool_common */
    uint32_t min_operands, max_operands;
    int (*run)(int argc, char **argv);
} tool_command;

/* argv[0] is the command. Returns -1 to go on, with the operands moved to the
 * front of argv and their count in *n_operands; else the exit code, after help
 * or a message was printed. args: the command's struct, filled with defaults.
 */
int tool_parse(const tool_command *command, void *args, int argc, char **argv,
               uint32_t *n_operands);

/* The one of n words that is closest to word; NULL if none is close. */
const char *tool_nearest(const char *word, const char *const *words,
                         uint32_t n);

/* A message on stderr about how the command was called; returns TOOL_USAGE. */
int tool_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
